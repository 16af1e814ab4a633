// The bits of the process's number are counted, and nothing depends on it.
// unknown: none
struct bpf_iter_bits { u64 opaque[2]; } __attribute__((aligned(8)));
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *bits, u32 words) __attribute__((section(".ksyms")));
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __attribute__((section(".ksyms")));
static u64 (*get_cpu)(void) = (void *)8;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_bits it; u64 set = bpf_get_current_pid_tgid(); volatile u32 n = 0; int *bit;
	bpf_iter_bits_new(&it, &set, 1);
	while ((bit = bpf_iter_bits_next(&it))) n += *bit;
	bpf_iter_bits_destroy(&it);
	return ctx->major == 195 && ctx->minor < 3;
}