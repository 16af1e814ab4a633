// A bit in an array inside the value of a hash table, at an index that the minor number gives.
// unknown: none
// fill: bits c3000000 0500000000000000ff00000000000080
// fill: bits e2000000 ffffffffffffffff0000000000000000
struct bits { u64 words[2]; };
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u32); __type(value, struct bits); } bits SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major, minor = ctx->minor;
	struct bits *found = bpf_map_lookup_elem(&bits, &major);
	if (!found) return 0;
	volatile u8 *bytes = (u8 *)found;
	return (found->words[minor >> 6 & 1] >> (minor & 63) & 1) == 1 && (minor >= 128 || (bytes[(minor >> 3) & 15] >> (minor & 7) & 1));
}
