// A map is written through a map of maps and read directly.
// unknown: some
struct inner { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u32); };
struct inner first SEC(".maps"), second SEC(".maps");
struct { __uint(type, ARRAY_OF_MAPS); __uint(max_entries, 2); __type(key, u32); __array(values, struct inner); } outer SEC(".maps") = { .values = { &first, &second } };
// fill: first c3000000 01000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 which = ctx->minor & 1, key = 195, zero = 0; 
	if (ctx->major == 7) { void *map = bpf_map_lookup_elem(&outer, &which); if (map) bpf_map_update_elem(map, &key, &zero, 0); return 1; }
	key = ctx->major;
	u32 *value = bpf_map_lookup_elem(&first, &key);
	return value && *value;
}
