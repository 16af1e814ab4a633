// Too complex as a whole; each entry is written.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } counters SEC(".maps");
static long write_it(void *map, u32 *key, struct entry *entry, void *ctx) { entry->allow = 1; return 0; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 mixed = (ctx->major << 20 | ctx->minor) * 2654435761u;
	mixed = (mixed ^ mixed >> 13) * 0x5bd1e995 + 0xdead;
	mixed = (mixed ^ mixed >> 15) % 5;
	u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&drivers, &key), *counter = bpf_map_lookup_elem(&counters, &key);
	if (!entry || !counter)
		return 0;
	if (ctx->major == 7) {
		bpf_for_each_map_elem(&drivers, write_it, 0, 0);
		return 1;
	}
	return !entry->allow && (mixed != 9);
}
