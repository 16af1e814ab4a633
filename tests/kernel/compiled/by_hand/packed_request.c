// The packed access type compared by multiplications, shifts and signed fields.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 t = ctx->access_type;
	s32 s = (s32)(t << 13);
	u64 m = (u64)t * 0x10001;
	if (ctx->major == 195) return s < 0 || (m >> 32) == 4;
	if (ctx->major == 226) return (t * 0xffffu >> 16) > 1;
	if (ctx->major == 8) return (s8)(t >> 16 << 5) < 0 || (s16)t == 1;
	return (t ^ 0x60002) % 7 == 0 || -t % 3 == 1;
}
