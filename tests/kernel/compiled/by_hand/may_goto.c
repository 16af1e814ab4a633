// A loop that the kernel may end (may_goto).
// unknown: none
#define may_break asm volatile goto("1: .byte 0xe5; .byte 0; .long ((%l[end] - 1b - 8) / 8) & 0xffff; .short 0" :::: end)
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 sum = 0;
	for (u32 i = 0; i < 8; i++) {
		sum += ctx->minor >> i & 1;
		may_break;
	}
end:
	return ctx->major == 195;
}
