// A key that is one half of a number on the stack.
// unknown: none
// fill: drivers c3000000 0100000000000000
// fill: drivers 03000000 0200000000000000
struct { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u64 both = (u64)ctx->minor << 32 | ctx->major;
	u64 *low, *high, *middle;
	low = bpf_map_lookup_elem(&drivers, (void *)&both);
	high = bpf_map_lookup_elem(&drivers, (void *)&both + 4);
	middle = bpf_map_lookup_elem(&drivers, (void *)&both + 2);
	return (low && *low == 1) || (high && *high == 2 && !middle);
}
