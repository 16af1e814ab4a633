// A pointer to the caller's stack is kept on the stack of the called function and written through.
// unknown: none
struct two { u32 a, b; };
static NOINLINE void set(struct two *volatile *where, u32 v) { (*where)->b = v; }
static NOINLINE u32 work(struct two *out, u32 minor) { struct two *volatile kept = out; struct two mine = { minor, 7 }; if (minor & 1) kept = &mine; set(&kept, minor * 3); return mine.b; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct two out = { 0, 1 };
	u32 r = work(&out, ctx->minor);
	return ctx->major == 195 ? r == 7 : out.b % 2 == 1;
}
