// What a map keeps for the cgroup decides, and one question changes it.
// unknown: some
struct bpf_cgroup_storage_key { u64 cgroup; u32 attach_type; };
struct { __uint(type, 21); __type(key, struct bpf_cgroup_storage_key); __type(value, u64); } cgroups SEC(".maps");
static void *(*bpf_get_local_storage)(void *map, u64 flags) = (void *)81;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 *denied = bpf_get_local_storage(&cgroups, 0);
	if (ctx->major == 7)
		*denied = 1;
	return !*denied;
}
