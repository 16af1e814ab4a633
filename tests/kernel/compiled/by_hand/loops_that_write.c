// A loop in a loop, each a function that a helper calls; the inner one changes the policy, for one driver.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } drivers SEC(".maps");
struct walk { u32 major, rounds; };
static int inner(u32 round, struct walk *walk)
{
	u32 key = round & 3;
	u64 *denied = bpf_map_lookup_elem(&drivers, &key);
	if (denied && walk->major == 7)
		*denied = 1;
	return walk->rounds++ > 6;
}
static int outer(u32 round, struct walk *walk)
{
	return bpf_loop(round + 1, inner, walk, 0) > 3;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct walk walk = { ctx->major, 0 };
	u32 key = ctx->minor & 3;
	bpf_loop(4, outer, &walk, 0);
	u64 *denied = bpf_map_lookup_elem(&drivers, &key);
	return denied && !*denied;
}
