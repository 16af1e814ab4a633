// Numbers that are no errors are set: positive ones, and some below the lowest error.
// unknown: none
// until: 7.1
// Linux 7.2 takes no errors but -4095 to 0.
// attach: first multi
// attach: policy multi
SEC("cgroup/dev") int first(struct bpf_cgroup_dev_ctx *ctx)
{
	switch (ctx->minor) {
	case 0: bpf_set_retval(-4095); break;
	case 1: bpf_set_retval(-4096); break;
	case 2: bpf_set_retval(1); break;
	case 3: bpf_set_retval(0x7fffffff); break;
	case 4: bpf_set_retval(-2147483647 - 1); break;
	}
	return 1;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	int error = bpf_get_retval();
	if (error > 0)
		bpf_set_retval(0);
	return ctx->major != 8 && error != 1;
}
