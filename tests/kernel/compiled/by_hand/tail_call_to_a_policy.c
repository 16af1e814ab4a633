// The policy for one driver is another program that is called at the end.
// unknown: none
int gpus(struct bpf_cgroup_dev_ctx *ctx);
struct { __uint(type, 3); __uint(max_entries, 4); __uint(key_size, 4); __array(values, int(void *)); } programs SEC(".maps") = { .values = { [1] = (void *)&gpus } };
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
SEC("cgroup/dev") int gpus(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->minor < 2;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 195)
		bpf_tail_call(ctx, &programs, 1);
	return ctx->major == 1;
}
