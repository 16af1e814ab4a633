// A function of the program tries to go on in another program, of which there is none.
// unknown: none
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
struct { __uint(type, 3); __uint(max_entries, 4); __uint(key_size, 4); __uint(value_size, 4); } programs SEC(".maps");
static NOINLINE int inner(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile int seen = ctx->minor & 1;
	bpf_tail_call(ctx, &programs, 1);
	return seen;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	int odd = inner(ctx);
	return ctx->major == 195 ? odd & 1 : ctx->major != 8;
}
