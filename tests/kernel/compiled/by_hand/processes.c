// An iterator over the ancestors of a cgroup, for one driver.
// unknown: major 7
struct cgroup_subsys_state;
struct bpf_iter_css { u64 opaque[3]; } __attribute__((aligned(8)));
struct cgroup { int number; };
extern struct cgroup *bpf_cgroup_from_id(u64 id) __attribute__((section(".ksyms")));
extern void bpf_cgroup_release(struct cgroup *cgroup) __attribute__((section(".ksyms")));
extern struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgroup, int level) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	int found = 0;
	if (ctx->major != 7)
		return ctx->major == 195 && ctx->minor < 3;
	struct cgroup *cgroup = bpf_cgroup_from_id(bpf_get_current_cgroup_id()), *above;
	if (!cgroup)
		return 0;
	above = bpf_cgroup_ancestor(cgroup, 1);
	if (above) {
		found = 1;
		bpf_cgroup_release(above);
	}
	bpf_cgroup_release(cgroup);
	return found;
}
