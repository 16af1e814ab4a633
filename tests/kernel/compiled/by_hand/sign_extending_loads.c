// Loads that extend the sign, from the stack and from a map.
// unknown: none
// set: v4
// fill: signs 00000000 80ff7f8001fe0080
// fill: signs 01000000 7f00807ffffeff7f
struct { __uint(type, ARRAY); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } signs SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 1;
	volatile u64 local = (u64)ctx->minor << 31 | ctx->minor << 7;
	u64 *value = bpf_map_lookup_elem(&signs, &key);
	s64 a, b, c, d;
	if (!value)
		return 0;
	asm volatile("%0 = *(s8 *)(%1 + 1)" : "=r"(a) : "r"(value));
	asm volatile("%0 = *(s16 *)(%1 + 2)" : "=r"(b) : "r"(value));
	asm volatile("%0 = *(s32 *)(%1 + 4)" : "=r"(c) : "r"(value));
	asm volatile("%0 = *(s8 *)(%1 + 0)" : "=r"(d) : "r"(&local) : "memory");
	if (ctx->major == 7)
		return d < 0;
	return ctx->major == 195 ? a == -1 && b < -100 : ctx->major == 226 ? c < 0 : (a ^ b ^ c ^ d) < 0;
}
