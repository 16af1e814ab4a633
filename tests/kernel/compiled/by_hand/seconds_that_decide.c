// For one driver the time in seconds decides.
// unknown: major 7
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 number = ctx->major == 7 ? bpf_ktime_get_ns() : ctx->minor & 255;
	asm volatile("" : "+r"(number));
	if (number / 10 * 3 % 7 == 1) return 0;
	return number % 13 % 2 == 0;
}
