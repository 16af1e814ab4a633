// A program that runs first, because of its flag, sets an error that the later one takes back for one driver.
// unknown: none
// attach: policy multi
// attach: first multi preorder
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 195)
		bpf_set_retval(0);
	return ctx->minor < 3;
}
SEC("cgroup/dev") int first(struct bpf_cgroup_dev_ctx *ctx)
{
	bpf_set_retval(-2);
	return 0;
}
