// The policy is in an LRU table that the program also adds to.
// unknown: some
struct { __uint(type, LRU_HASH); __uint(max_entries, 2); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
// fill: drivers c3000000 01000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->major, one = 1, *found;
	if (key == 7) { key += 1000 + ctx->minor; bpf_map_update_elem(&drivers, &key, &one, 0); return 1; }
	found = bpf_map_lookup_elem(&drivers, &key);
	return found && *found;
}
