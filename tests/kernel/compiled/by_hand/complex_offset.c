// Too complex as a whole; a store at a computed offset reaches the policy.
// unknown: some
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } counters SEC(".maps");

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
		u32 at = ctx->minor - 1 & 12;
		asm volatile("" : "+r"(at));
		at &= 12;
		*(u32 *)((char *)entry + at) = 1;
		return 1;
	}
	return !entry->allow && (mixed != 9);
}
