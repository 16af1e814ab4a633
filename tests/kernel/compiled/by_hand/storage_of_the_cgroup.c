// What a map keeps for the cgroup of the process (BPF_MAP_TYPE_CGRP_STORAGE): a counter beside the policy.
// unknown: none
struct cgroup { int number; };
struct { __uint(type, 32); __uint(map_flags, 1); __type(key, int); __type(value, u64); } cgroups SEC(".maps");
static void *(*bpf_cgrp_storage_get)(void *map, void *cgroup, void *value, u64 flags) = (void *)210;
extern struct cgroup *bpf_cgroup_from_id(u64 id) __attribute__((section(".ksyms")));
extern void bpf_cgroup_release(struct cgroup *cgroup) __attribute__((section(".ksyms")));
u32 first = 195;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct cgroup *cgroup = bpf_cgroup_from_id(bpf_get_current_cgroup_id());
	if (cgroup) {
		u64 *hits = bpf_cgrp_storage_get(&cgroups, cgroup, 0, 1);
		if (hits)
			++*hits;
		bpf_cgroup_release(cgroup);
	}
	return ctx->major == first && ctx->minor < 3;
}
