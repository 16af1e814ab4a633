// What a map keeps for the cgroup of the process decides, and one question changes it.
// unknown: some
struct cgroup { int number; };
struct { __uint(type, 32); __uint(map_flags, 1); __type(key, int); __type(value, u64); } cgroups SEC(".maps");
static void *(*bpf_cgrp_storage_get)(void *map, void *cgroup, void *value, u64 flags) = (void *)210;
static long (*bpf_cgrp_storage_delete)(void *map, void *cgroup) = (void *)211;
extern struct cgroup *bpf_cgroup_from_id(u64 id) __attribute__((section(".ksyms")));
extern void bpf_cgroup_release(struct cgroup *cgroup) __attribute__((section(".ksyms")));

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	int allowed = 0;
	struct cgroup *cgroup = bpf_cgroup_from_id(bpf_get_current_cgroup_id());
	if (!cgroup)
		return 0;
	u64 *denied = bpf_cgrp_storage_get(&cgroups, cgroup, 0, 1);
	if (denied) {
		if (ctx->major == 7 && ctx->minor == 1)
			*denied = 1;
		allowed = !*denied;
	}
	if (ctx->major == 7 && ctx->minor == 5)
		bpf_cgrp_storage_delete(&cgroups, cgroup);
	bpf_cgroup_release(cgroup);
	return allowed;
}
