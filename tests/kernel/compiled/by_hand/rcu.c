// The policy is read between bpf_rcu_read_lock and bpf_rcu_read_unlock.
// unknown: none
extern void bpf_rcu_read_lock(void) __attribute__((section(".ksyms")));
extern void bpf_rcu_read_unlock(void) __attribute__((section(".ksyms")));
u32 first = 195;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 allow;
	bpf_rcu_read_lock();
	allow = ctx->major == first;
	bpf_rcu_read_unlock();
	return allow;
}
