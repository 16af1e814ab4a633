// A helper that calls back is given flags that depend on the question: it fails.
// unknown: none
struct sum { u32 rounds; };
static int add(u32 round, struct sum *sum)
{
	sum->rounds += round;
	return 0;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct sum sum = { 0 };
	long result = bpf_loop(5, add, &sum, ctx->minor & 1);
	return result == -22 ? ctx->minor != 3 : sum.rounds == 10 && ctx->minor != 4;
}
