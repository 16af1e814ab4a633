// Atomic counters of 32 bits beside the policy, in the same value, with what they fetch.
// unknown: none
struct counted { u32 allow, hits, last, most; };
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct counted); } drivers SEC(".maps");
// fill: drivers 01000000 01000000000000000000000000000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 3;
	struct counted *counted = bpf_map_lookup_elem(&drivers, &key);
	if (!counted)
		return 0;
	u32 hits = __sync_fetch_and_add(&counted->hits, 1);
	__sync_fetch_and_or(&counted->last, ctx->major);
	__sync_val_compare_and_swap(&counted->most, hits, hits + 1);
	return !!counted->allow;
}
