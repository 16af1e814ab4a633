// What was never written on the stack decides for one driver.
// unknown: major 7
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 number;
	volatile u64 *read = &number;
	if (ctx->major != 7)
		*read = ctx->minor;
	asm volatile("" ::: "memory");
	return ctx->major == 7 ? *read & 1 : ctx->major == 195 && *read < 3;
}
