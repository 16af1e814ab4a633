// Counters in each kind of map beside a policy, in loops, functions and functions called back.
// unknown: none
struct { __uint(type, LRU_HASH); __uint(max_entries, 64); __type(key, struct key); __type(value, u64); } recent SEC(".maps");
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 64); __type(key, u32); __type(value, u64); } by_cpu SEC(".maps");
struct { __uint(type, 22); __uint(max_entries, 8); __type(value, u64); } queue SEC(".maps");
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
u64 total;
static NOINLINE void count(struct key *key)
{
	u64 one = 1, *seen = bpf_map_lookup_elem(&recent, key);
	if (seen) __sync_fetch_and_add(seen, 1); else bpf_map_update_elem(&recent, key, &one, 1);
	u64 *mine = bpf_map_lookup_elem(&by_cpu, &key->major);
	if (mine) ++*mine; else bpf_map_update_elem(&by_cpu, &key->major, &one, 0);
}
static long each(u32 i, u64 *sum) { *sum += i; __sync_fetch_and_add(&total, 1); bpf_map_push_elem(&queue, sum, 2); return 0; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct key key = { ctx->major, ctx->minor };
	u64 sum = 0;
	count(&key);
	bpf_loop(4, each, &sum, 0);
	return key.major == 195 ? key.minor < sum - 4 : sum == 6;
}
