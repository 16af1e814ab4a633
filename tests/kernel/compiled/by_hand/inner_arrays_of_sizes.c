// Arrays of other sizes than the pattern are inside a map; the index is compared with the size of each.
// unknown: none
// fill: few 00000000 01000000
// fill: few 01000000 00000000
// fill: many 03000000 01000000
// fill: many 80000000 01000000
struct plain { __uint(type, ARRAY); __uint(map_flags, 1 << 12); __uint(max_entries, 1); __type(key, u32); __type(value, u32); };
struct { __uint(type, ARRAY); __uint(map_flags, 1 << 12); __uint(max_entries, 2); __type(key, u32); __type(value, u32); } few SEC(".maps");
struct { __uint(type, ARRAY); __uint(map_flags, 1 << 12); __uint(max_entries, 200); __type(key, u32); __type(value, u32); } many SEC(".maps");
struct { __uint(type, HASH_OF_MAPS); __uint(max_entries, 4); __type(key, u32); __array(values, struct plain); } by_major SEC(".maps") = { .values = { [195] = (void *)&few, [226] = (void *)&many } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major, minor = ctx->minor;
	void *inner = bpf_map_lookup_elem(&by_major, &major);
	u32 *v = inner ? bpf_map_lookup_elem(inner, &minor) : 0;
	return inner ? v && *v : major == 1;
}
