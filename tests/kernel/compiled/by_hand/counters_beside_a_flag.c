// Bytes at a computed place of an entry are written, beside the flag that decides.
// unknown: none
struct v { u32 flag; u8 bytes[12]; };
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct v); } m SEC(".maps");
// fill: m 01000000 01000000000000000000000000000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 k = ctx->minor & 3; struct v *v = bpf_map_lookup_elem(&m, &k);
	if (!v) return 0;
	u32 i = ctx->major & 7; v->bytes[i] = 9;
	return v->flag && ctx->major != 8;
}