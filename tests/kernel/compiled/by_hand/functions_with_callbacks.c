// A function of the program that has helpers call another one.
// unknown: none
struct walk { u32 minor, sum; };

static long add(u32 index, struct walk *walk)
{
	walk->sum += walk->minor >> index & 1;
	return 0;
}

static NOINLINE u32 ones(u32 minor, u32 rounds)
{
	struct walk walk = { minor };
	bpf_loop(rounds & 7, add, &walk, 0);
	return walk.sum;
}

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	return ones(ctx->minor, 5) == ones(ctx->minor >> 5, 3);
}
