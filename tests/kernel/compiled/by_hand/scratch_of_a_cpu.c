// A key is made in a per-CPU array and read back from there: another run on the same CPU may come in between.
// unknown: some
// fill: rules c300000001000000 01000000
// fill: rules e200000080000000 01000000
struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct key); } scratch SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, struct key); __type(value, u32); } rules SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 zero = 0;
	struct key *key = bpf_map_lookup_elem(&scratch, &zero);
	if (!key) return 0;
	key->major = ctx->major; key->minor = ctx->minor;
	u32 *v = bpf_map_lookup_elem(&rules, key);
	return v && *v;
}
