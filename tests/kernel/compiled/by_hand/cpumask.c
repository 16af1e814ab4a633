// Masks of CPUs: not for this kind of program.
// refused
struct bpf_cpumask { u64 bits; };
extern struct bpf_cpumask *bpf_cpumask_create(void) __attribute__((section(".ksyms")));
extern void bpf_cpumask_release(struct bpf_cpumask *mask) __attribute__((section(".ksyms")));

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();
	if (mask)
		bpf_cpumask_release(mask);
	return ctx->major == 195;
}
