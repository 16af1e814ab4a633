// Functions return packed numbers in one register, and are called from each other with five arguments.
// unknown: none
static NOINLINE u64 pack(u32 a, u32 b, u32 c, u32 d, u64 e) { return ((u64)a << 40 | (u64)b << 16 | (c & 0xff) << 8 | (d & 0xff)) ^ e; }
static NOINLINE u64 twist(u64 v, u32 n) { return v << (n & 63) | v >> (-n & 63); }
static NOINLINE u64 both(u32 major, u32 minor, u32 type) { u64 p = pack(major, minor, type, type >> 16, 0xffff0000ffffULL); return twist(twist(p, minor & 7), -(minor & 7)); }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 v = both(ctx->major, ctx->minor, ctx->access_type) ^ 0xffff0000ffffULL;
	return (v >> 40) == 195 ? (v >> 16 & 0xffffff) < 3 : (v & 0xff) != 6;
}
