// A loop in a loop, both of which the kernel may end, beside the policy.
// unknown: none
// set: v4
u64 rounds[4];
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	for (u32 i = 0; i < 4; i++) {
		asm volatile goto("may_goto %l[end]" :::: end);
		for (u32 j = 0; j < 4; j++) {
			asm volatile goto("may_goto %l[next]" :::: next);
			rounds[j & 3]++;
		}
next:;
	}
end:
	return ctx->major == 195 && ctx->minor < 3;
}
