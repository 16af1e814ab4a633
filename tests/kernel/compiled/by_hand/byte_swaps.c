// Byte swaps of 16, 32 and 64 bits of numbers with more bits.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 all = (u64)ctx->major << 40 | ctx->minor | (u64)ctx->access_type << 20;
	u64 a = __builtin_bswap64(all); u32 b = __builtin_bswap32(all); u16 c = __builtin_bswap16(all);
	if (ctx->major == 195) return (a >> 56 & 3) == 1;
	if (ctx->major == 1) return (b >> 24) == 5;
	return (c & 0xff) < 8 || (a & 0xff00) != 0;
}
