// Programs that go on in each other by numbers of the question, one of them in itself.
// unknown: none
// tail: programs 1 first
// tail: programs 195 gpus
// tail: programs 226 render
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
struct { __uint(type, 3); __uint(max_entries, 300); __uint(key_size, 4); __uint(value_size, 4); } programs SEC(".maps");
SEC("cgroup/dev") int first(struct bpf_cgroup_dev_ctx *ctx)
{
	bpf_tail_call(ctx, &programs, ctx->minor);
	return 1;
}
SEC("cgroup/dev") int gpus(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->minor < 4;
}
SEC("cgroup/dev") int render(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->minor & 1)
		bpf_tail_call(ctx, &programs, 195);
	return (ctx->access_type >> 16) != 4;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	bpf_tail_call(ctx, &programs, ctx->major);
	return ctx->major == 8;
}
