// A value is kept on the stack of a function that throws for one driver.
// unknown: none
extern void bpf_throw(u64 cookie) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
static NOINLINE u32 check(u32 major, u32 *out) { *out = major * 2; if (major == 7) bpf_throw(1); return major + 1; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 out = 0, next = check(ctx->major, &out);
	return (out ^ next) >> 1 & 1;
}
