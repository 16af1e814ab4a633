// A loop that the kernel may end, with the instruction of the newer set; it counts too few rounds for that.
// unknown: none
// set: v4
u32 zero;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 sum = 0;
	if (ctx->major != 7)
		return ctx->major == 195 && ctx->minor < 3;
	for (u32 i = zero; i < ctx->minor; i++) {
		asm volatile goto("may_goto %l[end]" :::: end);
		sum += i & 1;
	}
end:
	return sum & 1;
}
