// The cgroup and its ancestors decide.
// unknown: none
static u64 (*bpf_get_current_ancestor_cgroup_id)(int level) = (void *)123;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 7)
		return bpf_get_current_ancestor_cgroup_id(1) & 1;
	if (ctx->major == 226)
		return bpf_get_current_ancestor_cgroup_id(0) == 1 && !bpf_get_current_ancestor_cgroup_id(30);
	if (ctx->major == 8)
		return bpf_get_current_ancestor_cgroup_id(2) % 3 == 1 || bpf_get_current_ancestor_cgroup_id(-1);
	return ctx->major == 195 && bpf_get_current_cgroup_id() != 0;
}
