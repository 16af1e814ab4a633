// The number of the CPU and the time choose between two ways that decide alike.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), r = bpf_get_prandom_u32();
	u64 t = bpf_ktime_get_ns();
	u32 a = (cpu ^ r) + ctx->major;
	if (t & 1) return a - (cpu ^ r) == 195;
	return ctx->major == 195;
}
