// Paths with different keys on the stack meet, count, and end together; the tables have many entries.
// unknown: none
// fill: drivers c300000000000000 01000000
// fill: drivers c300000001000000 01000000
// fill: drivers c300000002000000 00000000
// fill: drivers e200000080000000 01000000
// fill: drivers 0100000003000000 01000000
// fill: drivers 080000001f000000 01000000
// fill: drivers fc010000000f0f00 01000000
struct { __uint(type, HASH); __uint(max_entries, 64); __type(key, struct key); __type(value, u32); } drivers SEC(".maps");
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 64); __type(key, struct key); __type(value, struct entry); } seen SEC(".maps");
struct { __uint(type, LRU_HASH); __uint(max_entries, 64); __type(key, u32); __type(value, struct entry); } recent SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct key key = { ctx->major, ctx->minor };
	struct entry first = { ctx->minor, ctx->major, 1 };
	u32 number = ctx->minor ^ ctx->major, *allowed = bpf_map_lookup_elem(&drivers, &key);
	if (!allowed) {
		key.minor = 0;
		struct entry *entry = bpf_map_lookup_elem(&seen, &key);
		if (entry)
			entry->hits += ctx->minor;
		else
			bpf_map_update_elem(&seen, &key, &first, 0);
		allowed = bpf_map_lookup_elem(&drivers, &key);
	}
	struct entry *entry = bpf_map_lookup_elem(&recent, &number);
	if (entry)
		entry->access = key.minor;
	else
		bpf_map_update_elem(&recent, &number, &first, 0);
	return allowed && *allowed;
}
