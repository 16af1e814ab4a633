// A pointer is tested in one place and used from another.
// unknown: none
// fill: drivers c3000000 0100000002000000aa00000000000000
// fill: drivers e2000000 00000000060000000b00000000000000
struct { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major;
	struct entry *found = bpf_map_lookup_elem(&drivers, &major), *again;
	asm volatile("*(u64 *)(r10 - 64) = %0" :: "r"(found) : "memory");
	if (!found)
		return ctx->minor == 3;
	asm volatile("%0 = *(u64 *)(r10 - 64)" : "=r"(again) :: "memory");
	return again->allow || (again->hits & 1 << (ctx->minor & 7));
}
