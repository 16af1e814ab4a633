// Narrow signed numbers of every width in comparisons.
// unknown: none
// set: v4
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	s8 a = ctx->minor; s16 b = ctx->minor; s32 c = ctx->minor << 12; s64 d = (s64)(ctx->minor << 12) * 3;
	s8 e = ctx->major; 
	asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	if (a < -100) return b < 0;
	if (e < 0 && c < 0) return d % 7 == (c / -3) % 7;
	return (a >> 2) != (e >> 3);
}
