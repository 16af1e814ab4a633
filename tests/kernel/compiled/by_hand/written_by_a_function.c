// A function writes to the stack of its caller in two ways, and both paths meet before it returns.
// unknown: none
struct two { u64 a, b; };
static NOINLINE int set(struct two *to, u32 major, u32 minor)
{
	if (major == 195)
		to->a = minor;
	else
		to->b = major + minor;
	return 0;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct two two = { 5, 7 };
	set(&two, ctx->major, ctx->minor);
	asm volatile("" ::: "memory");
	return two.a < 3 && two.b == 7 || two.b == 226 + 128;
}
