// One of two tables of the caller is filled by a function, at a computed place.
// unknown: none
static NOINLINE int put(u64 *to, u32 at, u32 what) { if (at > 3) return 0; to[at & 3] = what; return 1; }
static NOINLINE int inner(u64 *a, u64 *b, struct bpf_cgroup_dev_ctx *ctx)
{
	u64 local[4] = { 1, 2, 3, 4 };
	put(local, ctx->minor & 3, 9);
	put(a, ctx->minor & 3, ctx->major);
	put(b, 3 - (ctx->minor & 3), local[ctx->minor & 1]);
	return local[2] == 9;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 x[4] = { 0 }, y[4] = { 7, 7, 7, 7 };
	int r = inner(x, (ctx->minor & 8) ? x : y, ctx);
	return r || x[1] == 195 || y[3] == 9 || x[2] == 2;
}