// Signed division and remainder, by zero and by minus one too.
// unknown: none
// set: v4
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	s32 minor = (s32)(ctx->minor << 12) >> 12, by = (s32)(ctx->access_type >> 16) - 2;
	s64 wide = (s64)minor << 44, wby = by;
	if (ctx->major == 195) return (minor / (by ? by : 1)) & 1;
	if (ctx->major == 226) return minor % 5 < 0;
	if (ctx->major == 8) return wby && (wide / wby) % 3 != 0;
	return (s8)minor % (s8)3 == -1;
}
