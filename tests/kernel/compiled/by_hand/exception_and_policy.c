// Questions about one driver end in an exception after the policy was changed.
// unknown: some
extern void bpf_throw(u64 cookie) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } state SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u64 *denied = bpf_map_lookup_elem(&state, &key);
	if (!denied)
		return 0;
	if (ctx->major == 7) {
		*denied = 1;
		bpf_throw(1);
	}
	return !*denied;
}
