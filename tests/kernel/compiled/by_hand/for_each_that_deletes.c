// A helper visits each entry of the policy, and its function deletes some, for one driver.
// unknown: some
// fill: drivers c3000000 01000000
// fill: drivers e2000000 01000000
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
static long delete(void *map, u32 *key, u32 *value, u32 *major)
{
	if (*major == 7)
		bpf_map_delete_elem(map, key);
	return 0;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major;
	bpf_for_each_map_elem(&drivers, delete, &major, 0);
	u32 *allowed = bpf_map_lookup_elem(&drivers, &major);
	return allowed && *allowed;
}
