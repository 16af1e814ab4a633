// A program that a lower one overrides: only the lower one runs.
// unknown: none
// attach: above override up 2
// attach: policy override
SEC("cgroup/dev") int above(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->major == 1;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->major == 195 && ctx->minor < 3;
}
