// Counters that are added to each other, compared and multiplied, beside the policy.
// unknown: none
struct counted { u32 allow, pad; u64 hits, sum, product, most; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct counted); } drivers SEC(".maps");
// fill: drivers 00000000 0100000000000000000000000000000000000000000000000000000000000000000000000000000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	struct counted *counted = bpf_map_lookup_elem(&drivers, &key);
	if (!counted)
		return 0;
	u64 now = bpf_ktime_get_ns();
	counted->hits++;
	counted->sum += counted->hits + now;
	counted->product = counted->product * (counted->sum | 1) + now / (counted->hits | 1);
	if (counted->sum > counted->most)
		counted->most = counted->sum;
	return counted->allow && ctx->major == 195;
}
