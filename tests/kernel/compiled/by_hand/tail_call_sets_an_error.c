// The program in which the policy goes on sets the error, and counts in a map.
// unknown: none
// tail: programs 0 other
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
struct { __uint(type, 3); __uint(max_entries, 4); __uint(key_size, 4); __uint(value_size, 4); } programs SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } hits SEC(".maps");
SEC("cgroup/dev") int other(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 3;
	u64 *count = bpf_map_lookup_elem(&hits, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	if (ctx->minor == 3)
		bpf_set_retval(-13);
	return 1;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 195)
		bpf_tail_call(ctx, &programs, 0);
	return ctx->major != 8;
}
