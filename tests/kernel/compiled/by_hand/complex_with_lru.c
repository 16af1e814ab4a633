// Too complex as a whole; the policy is in an LRU table, in which the kernel marks what is looked up.
// unknown: none
struct { __uint(type, LRU_HASH); __uint(max_entries, 8); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
// fill: drivers c3000000 01000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 mixed = (ctx->major << 20 | ctx->minor) * 2654435761u;
	mixed = (mixed ^ mixed >> 13) * 0x5bd1e995 + 0xdead;
	mixed = (mixed ^ mixed >> 15) % 5;
	u32 key = ctx->major;
	u32 *allow = bpf_map_lookup_elem(&drivers, &key);
	return allow ? *allow && mixed : mixed == 3;
}
