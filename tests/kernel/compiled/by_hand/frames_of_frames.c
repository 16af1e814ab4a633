// Functions pass on the addresses of their own variables, three deep.
// unknown: none
static NOINLINE int d(u64 *acc, u32 n) { u64 own = n * 3; *acc += own; return *acc & 1; }
static NOINLINE int c(u64 *acc, u32 n) { u64 own = *acc; int r = d(&own, n); *acc = own + r; return r; }
static NOINLINE int b(u64 *acc, u32 n) { u64 own = 1; int r = c(&own, n + 1) + c(acc, n); *acc ^= own; return r; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 acc = ctx->major; int r = b(&acc, ctx->minor & 0xff);
	return (acc & 3) == 2 || r == 2;
}