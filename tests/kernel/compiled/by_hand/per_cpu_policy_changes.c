// The policy is in a per-CPU array; a question changes the copy of the CPU that it runs on.
// unknown: some
// fill each CPU: numbered 00000000 0100000000000000
// fill each CPU: numbered 01000000 0100000000000000
struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 2); __type(key, u32); __type(value, u64); } numbered SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 1;
	u64 *allowed = bpf_map_lookup_elem(&numbered, &key);
	if (!allowed)
		return 0;
	if (ctx->major == 7)
		*allowed = 0;
	return *allowed != 0;
}
