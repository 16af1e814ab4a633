// A helper overwrites a part of a union, and the rest decides.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	union { char comm[24]; struct { u64 a, b; u32 major, minor; } s; } u;
	u.s.major = ctx->major; u.s.minor = ctx->minor;
	bpf_get_current_comm(u.comm, 16);
	volatile u32 *p = &u.s.major;
	return p[0] == 195 && p[1] < 2;
}
