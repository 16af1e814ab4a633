// Exceptions: one driver ends in bpf_throw, the others do not.
// unknown: none
extern void bpf_throw(u64 cookie) __attribute__((section(".ksyms")));

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 7)
		bpf_throw(ctx->minor & 1);
	return ctx->major == 195 && ctx->minor < 2;
}
