// Policy in per-CPU tables, arrays and of a named CPU.
// unknown: none
static void *(*bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195;
struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u32); } counters SEC(".maps");
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } hashed SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 3, *a = bpf_map_lookup_elem(&counters, &key), *c = bpf_map_lookup_percpu_elem(&counters, &key, 0);
	u64 *b = bpf_map_lookup_elem(&hashed, &key);
	if (b) return 0;
	return a && c && !*a && !*c && ctx->major != 8;
}
