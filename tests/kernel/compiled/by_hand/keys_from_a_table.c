// The key of a lookup is memory of another table, and a key is on both paths.
// unknown: none
// fill: alias e200000000000000 c300000001000000
// fill: alias 0100000003000000 c300000000000000
// fill: rules c300000001000000 01000000
// fill: rules e200000080000000 01000000
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, struct key); __type(value, struct key); } alias SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, struct key); __type(value, u32); } rules SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct key own = { ctx->major, ctx->minor }, *key = bpf_map_lookup_elem(&alias, &own);
	u32 *v = bpf_map_lookup_elem(&rules, key ? key : &own);
	return v && *v;
}
