// The error so far is read, set and read again.
// unknown: none
// until: 7.1
// Linux 7.2 takes no errors but -4095 to 0.
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	int before = bpf_get_retval();
	if (ctx->major == 195) { bpf_set_retval(-13); return bpf_get_retval() == -13; }
	if (ctx->major == 226) { bpf_set_retval(-(int)(ctx->minor & 255)); if (bpf_get_retval() < 0) bpf_set_retval(0); return 1; }
	if (ctx->major == 8) { bpf_set_retval(5); return ctx->minor & 1; }
	if (ctx->major == 1) { bpf_set_retval(-5000); return ctx->minor & 1; }
	return !before;
}
