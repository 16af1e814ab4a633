// Two programs share a map: the one above decides by what the one below writes.
// unknown: some
// attach: above multi up 1
// attach: policy multi
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } state SEC(".maps");
SEC("cgroup/dev") int above(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u64 *denied = bpf_map_lookup_elem(&state, &key);
	return denied && !*denied;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u64 *denied = bpf_map_lookup_elem(&state, &key);
	if (denied && ctx->major == 7)
		*denied = 1;
	return 1;
}
