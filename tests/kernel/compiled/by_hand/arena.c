// A counter in memory that programs and user space share (an arena), beside the policy.
// unknown: none
// set: v4
#define __arena __attribute__((address_space(1)))
struct { __uint(type, 33); __uint(map_flags, 1 << 10); __uint(max_entries, 4); __uint(map_extra, 0x10000000); } shared SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 __arena *hits = (u64 __arena *)0x10000000;
	asm volatile("" :: "r"(&shared));
	++*hits;
	return ctx->major == 195 && ctx->minor < 3;
}
