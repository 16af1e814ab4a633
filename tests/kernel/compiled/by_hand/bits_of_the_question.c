// The bits of a field of the question and of an entry make a number that decides.
// unknown: none
struct bpf_iter_bits { u64 opaque[2]; } __attribute__((aligned(8)));
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 words) __attribute__((section(".ksyms")));
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_bits it; u64 sum = 0; int *bit;
	int e = bpf_iter_bits_new(&it, (void *)&ctx->major, 1);
	while ((bit = bpf_iter_bits_next(&it))) sum = sum * 3 + *bit;
	bpf_iter_bits_destroy(&it);
	return e == 0 && sum % 5 == 1;
}