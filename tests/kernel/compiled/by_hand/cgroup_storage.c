// What a map keeps for the cgroup: a counter beside the policy.
// unknown: none
struct bpf_cgroup_storage_key { u64 cgroup; u32 attach_type; };
struct { __uint(type, 19); __type(key, struct bpf_cgroup_storage_key); __type(value, u64); } cgroups SEC(".maps");
static void *(*bpf_get_local_storage)(void *map, u64 flags) = (void *)81;
u32 first = 195;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 *hits = bpf_get_local_storage(&cgroups, 0);
	__sync_fetch_and_add(hits, 1);
	return ctx->major == first;
}
