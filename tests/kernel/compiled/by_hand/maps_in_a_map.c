// Counters in the maps of an array and of a hash table, and the policy in those of another one.
// unknown: none
// fill: gpus 00000000 01000000
// fill: gpus 01000000 01000000
// fill: render 80000000 01000000
struct numbered { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u32); };
struct hashed { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u32); };
struct numbered counts_a SEC(".maps"), counts_b SEC(".maps");
struct hashed gpus SEC(".maps"), render SEC(".maps");
struct { __uint(type, ARRAY_OF_MAPS); __uint(max_entries, 4); __type(key, u32); __array(values, struct numbered); } counts SEC(".maps") = { .values = { [0] = &counts_a, [2] = &counts_b } };
struct { __uint(type, HASH_OF_MAPS); __uint(max_entries, 8); __type(key, u32); __array(values, struct hashed); } drivers SEC(".maps") = { .values = { [195] = &gpus, [226] = &render } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major, minor = ctx->minor, which = ctx->access_type & 3, slot = ctx->minor & 3;
	void *numbers = bpf_map_lookup_elem(&counts, &which), *driver = bpf_map_lookup_elem(&drivers, &major);
	if (numbers) {
		u32 *count = bpf_map_lookup_elem(numbers, &slot);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	if (!driver)
		return major == 1;
	u32 *allowed = bpf_map_lookup_elem(driver, &minor);
	return allowed && *allowed;
}
