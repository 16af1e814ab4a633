// A trie with a shorter and a longer prefix, of which questions about one driver remove the longer one.
// unknown: some
// fill: prefixes 0800000000000000 01000000
// fill: prefixes 1000000000c30000 02000000
struct { __uint(type, LPM_TRIE); __uint(max_entries, 8); __uint(map_flags, 1); __type(key, struct prefix); __type(value, u32); } prefixes SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct prefix key = { 32, { 0, ctx->major, ctx->minor >> 8, ctx->minor } }, removed = { 16, { 0, 195 } };
	if (ctx->major == 7)
		bpf_map_delete_elem(&prefixes, &removed);
	u32 *found = bpf_map_lookup_elem(&prefixes, &key);
	return found && *found == 2;
}
