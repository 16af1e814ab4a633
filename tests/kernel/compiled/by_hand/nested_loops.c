// A loop in a loop, each a function that a helper calls, both left early.
// unknown: none
struct walk { u32 minor, found, rounds; };

static long inner(u32 index, struct walk *walk)
{
	walk->rounds++;
	if (index * 3 == walk->minor) {
		walk->found = 1;
		return 1;
	}
	return 0;
}

static long outer(u32 index, struct walk *walk)
{
	walk->minor -= index;
	bpf_loop(4, inner, walk, 0);
	return walk->found != 0;
}

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct walk walk = { ctx->minor & 31 };
	long rounds = bpf_loop(5, outer, &walk, 0);
	return walk.found || rounds == 5 && walk.rounds == 20 && ctx->major == 195;
}
