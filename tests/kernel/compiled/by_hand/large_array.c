// An array with more entries than are told apart has a counter beside what decides.
// unknown: none
// fill: m 02000000 0100000000000000
struct v { u32 a, b; };
struct { __uint(type, ARRAY); __uint(max_entries, 17000); __type(key, u32); __type(value, struct v); } m SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 k = ctx->minor; struct v *v = bpf_map_lookup_elem(&m, &k);
	if (!v) return 0;
	__sync_fetch_and_add(&v->b, 1);
	return v->a == 1 && 195 == ctx->major;
}