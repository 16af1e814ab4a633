// What a counter held before decides.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } count SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0; u64 *n = bpf_map_lookup_elem(&count, &key);
	if (!n) return 0;
	u64 before = __sync_fetch_and_add(n, ctx->major == 7);
	return before < 4 || ctx->major == 1;
}
