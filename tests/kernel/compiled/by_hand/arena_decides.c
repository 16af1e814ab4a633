// What is in memory that programs and user space share (an arena) decides, and one driver changes it.
// unknown: some
// set: v4
#define __arena __attribute__((address_space(1)))
struct { __uint(type, 33); __uint(map_flags, 1 << 10); __uint(max_entries, 4); __uint(map_extra, 0x10000000); } shared SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 __arena *denied = (u64 __arena *)0x10000000;
	asm volatile("" :: "r"(&shared));
	if (ctx->major == 7)
		*denied = 1;
	return !*denied;
}
