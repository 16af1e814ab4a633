// Numbers in network order, as keys and in comparisons.
// unknown: none
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u64); __type(value, u32); } drivers SEC(".maps");
// fill: drivers 000000c300000003 01000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 key = __builtin_bswap32(ctx->major) | (u64)__builtin_bswap32(ctx->minor) << 32;
	u32 *allow = bpf_map_lookup_elem(&drivers, &key);
	u16 low = __builtin_bswap16(ctx->minor);
	if (allow)
		return 1;
	return low >> 8 == (low & 0xff) || __builtin_bswap64(ctx->minor) >> 56 == 5;
}
