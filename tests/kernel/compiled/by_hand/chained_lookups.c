// The value that one lookup finds is the key of the next one, three times; values have odd sizes.
// unknown: none
// fill: classes c300000000000000 020000
// fill: classes e200000080000000 010000
// fill: rules 01000000 000103
// fill: rules 02000000 010203
// fill: masks 0101 06
// fill: masks 0103 02
// fill: masks 0203 06
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, struct key); __type(value, u8[3]); } classes SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u8[3]); } rules SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u8[2]); __type(value, u8); } masks SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct key key = { ctx->major, ctx->minor };
	u8 *class = bpf_map_lookup_elem(&classes, &key);
	if (!class) return ctx->major == 8;
	u32 index = class[0];
	u8 *rule = bpf_map_lookup_elem(&rules, &index);
	if (!rule) return 0;
	u8 *mask = bpf_map_lookup_elem(&masks, rule + 1);
	if (!mask) return 0;
	return !(ctx->access_type >> 16 & ~(u32)*mask);
}
