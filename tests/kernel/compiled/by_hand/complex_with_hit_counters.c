// Too complex as a whole; entries of the policy count their hits, in tables whose lookups the kernel writes out.
// unknown: none
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 64); __type(key, u32); __type(value, struct entry); } counts SEC(".maps");
// fill: drivers c3000000 01000000000000000000000000000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 mixed = (ctx->major << 20 | ctx->minor) * 2654435761u;
	mixed = (mixed ^ mixed >> 13) * 0x5bd1e995 + 0xdead;
	mixed = (mixed ^ mixed >> 15) % 5;
	u32 key = ctx->major;
	struct entry first = { 0, 0, 1 }, *driver = bpf_map_lookup_elem(&drivers, &key), *count = bpf_map_lookup_elem(&counts, &key);
	if (driver)
		__sync_fetch_and_add(&driver->hits, 1);
	if (count)
		count->access = mixed;
	else
		bpf_map_update_elem(&counts, &key, &first, 0);
	return driver ? driver->allow && mixed : mixed == 3;
}
