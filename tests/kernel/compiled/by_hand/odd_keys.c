// Keys of three and of five bytes, of which some come from the question.
// unknown: none
// fill: three c30003 01
// fill: three e20080 01
// fill: five c300000001 0100
// fill: five 0800000000 0001
struct { __uint(type, HASH); __uint(max_entries, 4); __uint(key_size, 3); __uint(value_size, 1); } three SEC(".maps");
struct { __uint(type, LRU_HASH); __uint(max_entries, 4); __uint(key_size, 5); __uint(value_size, 2); } five SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u8 short_key[3] = { ctx->major, ctx->major >> 8, ctx->minor }, long_key[5], *found;
	u16 *other;
	*(u32 *)long_key = ctx->major;
	long_key[4] = ctx->access_type & 1;
	found = bpf_map_lookup_elem(&three, short_key);
	other = bpf_map_lookup_elem(&five, long_key);
	return (found && *found) || (other && *other == 1 && (ctx->access_type >> 16 & 4));
}
