// A function returns one of two pointers, another one null or not.
// unknown: none
struct { __uint(type, ARRAY); __uint(max_entries, 8); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
// fill: drivers 03000000 01000000060000000000000000000000
// fill: drivers 01000000 01000000020000000000000000000000
static NOINLINE struct entry *find(u32 key) { return bpf_map_lookup_elem(&drivers, &key); }
static NOINLINE struct entry *pick(u32 minor) { struct entry *one = find(minor & 7), *two = find(minor >> 7); if (!one || !two) return 0; return one->allow ? one : two; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct entry *entry = pick(ctx->minor);
	if (!entry) return ctx->major == 1;
	return entry->access >= 2 || ctx->major == 8;
}
