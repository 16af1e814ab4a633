// Paths join with spilled pointers of different kinds, half written over on one.
// unknown: none
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } others SEC(".maps");
// fill: drivers 01000000 01000000020000000300000000000000
// fill: others c3000000 01000000060000000500000000000000
// fill: others e2000000 00000000000000000500000000000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = ctx->minor & 3, major = ctx->major; struct entry local = { 1, 7, 9 };
	struct entry *volatile kept = &local; struct entry *found;
	if (ctx->access_type >> 16 & 2) { found = bpf_map_lookup_elem(&drivers, &key); if (found) kept = found; }
	else { found = bpf_map_lookup_elem(&others, &major); if (found) kept = found; }
	found = kept;
	return found->allow && (found->access & (ctx->access_type >> 16)) == ctx->access_type >> 16;
}
