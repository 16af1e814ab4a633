// Too complex as a whole; a counter is written through an address that may be null.
// unknown: none
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } counters SEC(".maps");
// fill: counters 00000000 0000000000000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 mixed = (ctx->major << 20 | ctx->minor) * 2654435761u;
	mixed = (mixed ^ mixed >> 13) * 0x5bd1e995 + 0xdead;
	mixed = (mixed ^ mixed >> 15) % 5;
	u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&drivers, &key);
	u64 *hits = 0;
	if (ctx->minor & 1)
		hits = bpf_map_lookup_elem(&counters, &key);
	if (hits)
		++*hits;
	return entry && !entry->allow && mixed != 3;
}
