// An iterator over the bits of a number decides for one driver.
// unknown: none
struct bpf_iter_bits { u64 opaque[2]; } __attribute__((aligned(8)));
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 words) __attribute__((section(".ksyms")));
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_bits it;
	u64 set = ctx->minor;
	u32 sum = 0;
	int *bit;
	if (ctx->major == 7) {
		bpf_iter_bits_new(&it, &set, 1);
		while ((bit = bpf_iter_bits_next(&it)))
			sum += *bit;
		bpf_iter_bits_destroy(&it);
		return sum & 1;
	}
	return ctx->major == 195 && ctx->minor < 3;
}
