// What a map keeps for the task that asks: a counter beside the policy.
// unknown: none
struct { __uint(type, 29); __uint(map_flags, 1); __type(key, int); __type(value, u64); } tasks SEC(".maps");
static void *(*bpf_get_current_task_btf)(void) = (void *)158;
static void *(*bpf_task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
u32 first = 195;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 *hits = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 1);
	if (hits)
		++*hits;
	return ctx->major == first;
}
