// The policy is in per-CPU tables of every kind, with the same values for all CPUs, beside counters in others.
// unknown: none
// fill each CPU: hashed c3000000 0100000000000000
// fill each CPU: hashed e2000000 0200000000000000
// fill each CPU: numbered 01000000 0300000000000000
// fill each CPU: recent c3000000 0100000000000000
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 8); __type(key, u32); __type(value, u64); } hashed SEC(".maps"), counts SEC(".maps");
struct { __uint(type, LRU_PERCPU_HASH); __uint(max_entries, 64); __type(key, u32); __type(value, u64); } recent SEC(".maps");
struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } numbered SEC(".maps"), hits SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major, minor = ctx->minor & 3;
	u64 one = 1, *a = bpf_map_lookup_elem(&hashed, &major), *b = bpf_map_lookup_elem(&numbered, &minor);
	u64 *c = bpf_map_lookup_elem(&recent, &major), *count = bpf_map_lookup_elem(&counts, &major), *hit = bpf_map_lookup_elem(&hits, &minor);
	if (count)
		++*count;
	else
		bpf_map_update_elem(&counts, &major, &one, 0);
	if (hit)
		__sync_fetch_and_add(hit, 1);
	if (c)
		return *c == 1 && ctx->minor < 3;
	return a && b && *a < *b;
}
