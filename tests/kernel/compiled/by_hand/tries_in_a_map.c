// A map for each driver with prefixes of minors inside.
// unknown: none
// fill: gpus 2000000000000000 01000000
// fill: gpus 2000000000000003 00000000
// fill: gpus 1f00000000000002 02000000
// fill: drm 1800000000000080 01000000
// fill: drm 2000000000000080 00000000
struct pfx { u32 len; u8 data[4]; };
struct trie { __uint(type, LPM_TRIE); __uint(map_flags, 1); __uint(max_entries, 8); __type(key, struct pfx); __type(value, u32); };
struct trie gpus SEC(".maps"), drm SEC(".maps");
struct { __uint(type, HASH_OF_MAPS); __uint(max_entries, 4); __type(key, u32); __array(values, struct trie); } by_major SEC(".maps") = { .values = { [195] = &gpus, [226] = &drm } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major;
	void *inner = bpf_map_lookup_elem(&by_major, &major);
	if (!inner) return 1;
	struct pfx p = { 32 };
	u32 m = __builtin_bswap32(ctx->minor);
	__builtin_memcpy(p.data, &m, 4);
	u32 *v = bpf_map_lookup_elem(inner, &p);
	return v && *v;
}
