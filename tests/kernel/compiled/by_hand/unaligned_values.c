// Numbers that begin at odd places of a map's value.
// unknown: none
// fill: drivers 00000000 00c3000000e200000000010203040506
// fill: drivers 01000000 ffc3000001e2000000ff010203040506
struct { __uint(type, ARRAY); __uint(max_entries, 2); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor >> 1 & 1, first, second;
	u64 across;
	struct entry *value = bpf_map_lookup_elem(&drivers, &key);
	if (!value)
		return 0;
	asm volatile("%0 = *(u32 *)(%1 + 1)" : "=r"(first) : "r"(value));
	asm volatile("%0 = *(u32 *)(%1 + 5)" : "=r"(second) : "r"(value));
	asm volatile("%0 = *(u64 *)(%1 + 3)" : "=r"(across) : "r"(value));
	return first == ctx->major || second == ctx->major || (across >> 8 & 0xff) == ctx->minor;
}
