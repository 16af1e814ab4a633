// A program without flags above: nothing may be attached below it, and it decides.
// unknown: none
// attach: policy up 1
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->major == 195 && ctx->minor < 3;
}
