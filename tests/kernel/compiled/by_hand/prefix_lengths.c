// Prefixes that end within a byte, looked up by keys shorter and longer than all of them.
// unknown: none
// fill: prefixes 0000000000000000 01000000
// fill: prefixes 0900000000c30000 02000000
// fill: prefixes 0f00000000c20000 03000000
// fill: prefixes 1000000000c30000 04000000
// fill: prefixes 1700000000c30200 05000000
// fill: prefixes 1f00000000c30004 06000000
// fill: prefixes 2000000000c30003 07000000
struct { __uint(type, LPM_TRIE); __uint(max_entries, 16); __uint(map_flags, 1); __type(key, struct prefix); __type(value, u32); } prefixes SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct prefix key = { .length = ctx->access_type & 1 ? ctx->minor & 0x3f : 32,
			      .data = { ctx->major >> 8, ctx->major, ctx->minor >> 8, ctx->minor } };
	u32 *found = bpf_map_lookup_elem(&prefixes, &key);
	return found ? *found & 1 : ctx->major == 8;
}
