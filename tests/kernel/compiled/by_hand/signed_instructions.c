// Instructions of the fourth set: signed moves, loads, swaps, division.
// unknown: none
// set: v4
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile s8 a = ctx->minor; volatile s16 b = ctx->major; volatile s32 c = -(s32)ctx->minor;
	s64 x = (s64)a * b; s32 y = c / 3; s32 z = c % -5; s64 w = (s64)c / (s64)(b - 195);
	u64 v = __builtin_bswap64((u64)ctx->minor << 8), u = __builtin_bswap32(ctx->major);
	if (ctx->major == 195) return x > 0 || z == -3 || w == 0;
	if (ctx->major == 226) return y == -42 && u >> 24 == 226;
	if (ctx->major == 4095) return a == -1 && (v & 0xff) == 0 && x == -4095;
	return (s64)z * y > w;
}
