// The policy is changed by compare-and-exchange and read by what it fetches.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u32); } drivers SEC(".maps");

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u32 *denied = bpf_map_lookup_elem(&drivers, &key);
	if (!denied)
		return 0;
	if (ctx->major == 7)
		return !__sync_val_compare_and_swap(denied, 0, 1) || 1;
	return !__sync_fetch_and_or(denied, 0);
}
