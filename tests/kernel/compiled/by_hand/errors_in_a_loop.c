// A function that a helper calls sets the error.
// unknown: none
static long body(u64 i, u32 *s) { if (i == *s) bpf_set_retval(-5); return 0; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 s = ctx->minor; bpf_loop(4, body, &s, 0);
	return 1;
}