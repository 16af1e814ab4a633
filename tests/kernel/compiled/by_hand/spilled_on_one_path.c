// A pointer to the policy is kept on the stack on one path, a number on another, and nothing on the third.
// unknown: none
// fill: drivers c3000000 01000000000000000000000000000000
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 place;
	volatile u64 *kept = &place;
	u32 key = ctx->major;
	struct entry *driver = bpf_map_lookup_elem(&drivers, &key);
	if (driver)
		*(struct entry *volatile *)kept = driver;
	else if (key == 226)
		*kept = ctx->minor;
	asm volatile("" ::: "memory");
	if (driver)
		return (*(struct entry *volatile *)kept)->allow && ctx->minor < 3;
	return key == 226 && *kept == 128;
}
