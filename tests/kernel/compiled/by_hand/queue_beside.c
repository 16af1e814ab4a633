// A queue and a stack of numbers beside the policy.
// unknown: none
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
struct { __uint(type, 22); __uint(max_entries, 4); __type(value, u32); } queue SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 value = ctx->minor, got = 0, keep = ctx->major;
	bpf_map_push_elem(&queue, &value, 2);
	bpf_map_pop_elem(&queue, &got);
	return keep == 195 && value < 2;
}
