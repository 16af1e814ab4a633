// The bits of two words are gone through, for one driver.
// unknown: major 7
struct bpf_iter_bits { u64 opaque[2]; } __attribute__((aligned(8)));
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 words) __attribute__((section(".ksyms")));
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_bits it; u64 set[2] = { ctx->minor, 1 }; int n = 0, *bit;
	if (ctx->major != 7) return ctx->major == 195;
	bpf_iter_bits_new(&it, set, 2);
	while ((bit = bpf_iter_bits_next(&it))) n += *bit;
	bpf_iter_bits_destroy(&it);
	return n & 1;
}