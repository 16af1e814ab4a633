// The place of an iterator over bits is read once it has ended, for one driver.
// unknown: major 195
struct bpf_iter_bits { u64 opaque[2]; } __attribute__((aligned(8)));
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 words) __attribute__((section(".ksyms")));
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_bits it; u64 set = ctx->minor; u32 n = 0; int *bit, *last;
	bpf_iter_bits_new(&it, &set, 1);
	last = bpf_iter_bits_next(&it);
	if (last) {
		while ((bit = bpf_iter_bits_next(&it))) n++;
		n += *last;
	}
	bpf_iter_bits_destroy(&it);
	return ctx->major == 195 ? n >= 64 : n > 1000;
}