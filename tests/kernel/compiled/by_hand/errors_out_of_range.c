// Numbers beside the errors of the kernel are set as errors.
// unknown: none
// until: 7.1
// Linux 7.2 takes no errors but -4095 to 0.
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	bpf_set_retval(ctx->major == 195 ? -4096 : ctx->major == 7 ? -4095 : 0x7fffffff * (ctx->minor & 1));
	return ctx->minor != 2;
}