// For one driver the time in seconds decides, times the minor number.
// unknown: major 7
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 number = ctx->major == 7 ? bpf_ktime_get_ns() : ctx->minor * 1000000007ull;
	asm volatile("" : "+r"(number));
	if (number / 1000000007 * (ctx->minor + 3) % 5 == 1) return 0;
	return number % 1000003 % 2 == 0;
}
