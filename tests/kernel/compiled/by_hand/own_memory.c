// The program reads its argument, its stack and a map by a helper for the kernel's memory.
// unknown: none
// fill: drivers 00000000 c3000000e20000000002040600000000
// fill: drivers 01000000 e2000000000000000100000000000000
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = 0, key = 0, from_map = 0, copied = 0, minor = ctx->minor, computed = minor & 3, by_number = 0;
	struct entry whole = {}, *entry = bpf_map_lookup_elem(&drivers, &key), *other = bpf_map_lookup_elem(&drivers, &computed);
	if (!entry || !other)
		return 0;
	bpf_probe_read_kernel(&major, 4, &ctx->major);
	bpf_probe_read_kernel(&from_map, 4, &entry->allow);
	bpf_probe_read_kernel(&copied, 4, &minor);
	bpf_probe_read_kernel(&whole, 13, entry);
	bpf_probe_read_kernel(&by_number, 2, &other->allow);
	if (ctx->major == 226)
		return by_number == ctx->major && whole.access == by_number && whole.hits == 0x06040200;
	return major == from_map && copied < 2;
}
