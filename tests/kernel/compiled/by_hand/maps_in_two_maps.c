// One map is in two maps; it is written through one of them and read through the other.
// unknown: some
// fill: shared c3000000 01000000
// fill: apart c3000000 01000000
struct hashed { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u32); };
struct hashed shared SEC(".maps"), apart SEC(".maps");
struct { __uint(type, HASH_OF_MAPS); __uint(max_entries, 4); __type(key, u32); __array(values, struct hashed); } written SEC(".maps") = { .values = { [7] = &shared } };
struct { __uint(type, ARRAY_OF_MAPS); __uint(max_entries, 2); __type(key, u32); __array(values, struct hashed); } read SEC(".maps") = { .values = { &shared, &apart } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major, key = 195, which = ctx->minor & 1;
	void *map = bpf_map_lookup_elem(&written, &major);
	if (map) {
		bpf_map_delete_elem(map, &key);
		return 0;
	}
	map = bpf_map_lookup_elem(&read, &which);
	if (!map)
		return 0;
	u32 *allowed = bpf_map_lookup_elem(map, &major);
	return allowed && *allowed;
}
