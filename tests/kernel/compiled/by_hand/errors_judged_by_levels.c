// Three levels with set_retval, each judged by the next one.
// unknown: none
// attach: top multi up 2
// attach: mid multi up 1
// attach: early multi preorder
// attach: policy multi
SEC("cgroup/dev") int top(struct bpf_cgroup_dev_ctx *ctx)
{
	int e = bpf_get_retval();
	if (ctx->major == 195 && e == -13) { bpf_set_retval(0); return 1; }
	if (ctx->major == 226 && e == -1) { bpf_set_retval(-2); return 0; }
	return ctx->major != 508;
}
SEC("cgroup/dev") int mid(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->minor == 3 && bpf_get_retval() < 0) bpf_set_retval(-13);
	return ctx->minor != 128;
}
SEC("cgroup/dev") int early(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 1) bpf_set_retval(-5);
	return ctx->minor != 4;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 1 && bpf_get_retval() == -5) bpf_set_retval(0);
	return ctx->minor != 3;
}
