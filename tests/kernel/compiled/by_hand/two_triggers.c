// One question lets another one change the policy.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 2); __type(key, u32); __type(value, u32); } state SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 zero = 0, one = 1, *armed = bpf_map_lookup_elem(&state, &zero), *open = bpf_map_lookup_elem(&state, &one);
	if (!armed || !open) return 0;
	if (ctx->major == 7) { if (ctx->minor == 3) *armed = 1; else if (*armed) *open = 1; return 1; }
	return ctx->major == 195 ? *open & 1 : 1;
}
