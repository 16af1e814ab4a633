// Programs on three cgroups, attached with several flags and by a link, read and set the error one after the other.
// unknown: none
// until: 7.1
// Linux 7.2 takes no errors but -4095 to 0.
// attach: above multi up 2
// attach: middle multi preorder up 1
// attach: linked link
// attach: policy multi
// attach: last multi
#define WHEN(number, error) if (ctx->minor == number) bpf_set_retval(error)
SEC("cgroup/dev") int above(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->minor == 1 && bpf_get_retval() == -13)
		bpf_set_retval(0);
	return ctx->major != 8;
}
SEC("cgroup/dev") int middle(struct bpf_cgroup_dev_ctx *ctx)
{
	WHEN(1, -13);
	WHEN(2, -1);
	return ctx->major == 195 || ctx->major == 226;
}
SEC("cgroup/dev") int linked(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 195 && bpf_get_retval() == -1)
		bpf_set_retval(0);
	return 1;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	WHEN(3, -22);
	WHEN(4, 1);
	return ctx->minor != 255;
}
SEC("cgroup/dev") int last(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 226 || ctx->minor == 3)
		bpf_set_retval(bpf_get_retval() == -22 ? 0 : bpf_get_retval());
	return 1;
}
