// A function that a loop calls changes the policy, for one driver.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
struct state { u32 *first; u32 major; u32 rounds; };
static long each(u32 index, struct state *state)
{
	u32 *denied = bpf_map_lookup_elem(&drivers, &index);
	state->rounds++;
	if (denied && state->major == 7)
		*denied = 1;
	return index == 2;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 3, *denied;
	struct state state = { 0, ctx->major, 0 };
	if (bpf_loop(8, each, &state, 0) != 3 || state.rounds != 3)
		return 0;
	denied = bpf_map_lookup_elem(&drivers, &key);
	return ctx->major == 7 || (denied && !*denied);
}
