// Static functions that sort an array on the stack of their caller.
// unknown: none
static NOINLINE void order(u32 *a, u32 *b) { if (*a > *b) { u32 t = *a; *a = *b; *b = t; } }
static NOINLINE int middle(u32 *v) { order(v, v + 1); order(v + 1, v + 2); order(v, v + 1); return v[1]; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 v[3] = { ctx->major, 195, ctx->minor };
	int m = middle(v);
	return m == 195 ? v[0] == ctx->minor : (u32)m == ctx->major && v[2] == 195;
}
