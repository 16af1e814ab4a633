// The policy is read while nothing else may run on the CPU.
// unknown: none
extern void bpf_preempt_disable(void) __attribute__((section(".ksyms")));
extern void bpf_preempt_enable(void) __attribute__((section(".ksyms")));
u32 first = 195;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 allow;
	bpf_preempt_disable();
	allow = ctx->major == first;
	bpf_preempt_enable();
	return allow;
}
