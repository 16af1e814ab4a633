// Addresses of entries are compared with each other.
// unknown: major 7
// fill: drivers c3000000 01000000
// fill: drivers e2000000 00000000
struct { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major == 7 ? 195 : ctx->major, nvidia = 195;
	u32 *one = bpf_map_lookup_elem(&drivers, &major), *two = bpf_map_lookup_elem(&drivers, &nvidia);
	if (!one || !two)
		return 0;
	if (ctx->major == 7)
		return (one > two) ^ (ctx->minor & 1);
	return *one != 0;
}
