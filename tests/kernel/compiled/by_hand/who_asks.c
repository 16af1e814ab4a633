// Root is allowed, which is not known of who asks; others only some devices.
// unknown: major 7
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 pid = bpf_get_current_pid_tgid();
	char comm[16];
	bpf_get_current_comm(comm, sizeof comm);
	if (ctx->major == 7) return (u32)bpf_get_current_uid_gid() == 0 && comm[0] != 'z';
	if ((u32)pid == 0 && pid >> 32 == 0 && ctx->major == 4096) return 1;
	return ctx->major == 195 && ctx->minor % 3 == 1;
}
