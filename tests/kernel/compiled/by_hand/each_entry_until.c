// bpf_for_each_map_elem that stops early over an array, a hash table and an empty one; the argument is changed.
// unknown: none
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u32); __type(value, struct entry); } others SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u32); __type(value, u32); } nothing SEC(".maps");
// fill: drivers 00000000 c3000000000000000000000000000000
// fill: drivers 02000000 e2000000010000000000000000000000
// fill: others c3000000 01000000060000000500000000000000
// fill: others e2000000 00000000000000000500000000000000
// fill: others 08000000 00000000010000000500000000000000
struct walk { u32 major, minor, found; };
static long each(void *map, u32 *key, struct entry *value, struct walk *walk)
{
	if (value->allow == walk->major || *key == walk->major) { walk->found += 1 + value->access + *key; return walk->minor & 1; }
	return 0;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct walk walk = { ctx->major, ctx->minor, 0 };
	long a = bpf_for_each_map_elem(&drivers, each, &walk, 0), b = bpf_for_each_map_elem(&others, each, &walk, 0), c = bpf_for_each_map_elem(&nothing, each, &walk, 0);
	if (c) return 0;
	return ctx->major == 8 ? walk.found == 10 : (walk.found + a) & 1;
}
