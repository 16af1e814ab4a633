// A loop that the kernel may end, with the instruction of the newer set; what it counts decides for one driver.
// unknown: major 7
// set: v4
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 sum = 0;
	for (u32 i = 0; i < ctx->minor; i++) {
		asm volatile goto("may_goto %l[end]" :::: end);
		sum += i & 1;
	}
end:
	return ctx->major == 7 ? sum & 1 : ctx->major == 195 && ctx->minor < 3;
}
