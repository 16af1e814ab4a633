// Drivers whose number is the place of a program go on in it, the others do not.
// unknown: none
// tail: programs 195 gpus
struct { __uint(type, 3); __uint(max_entries, 300); __uint(key_size, 4); __uint(value_size, 4); } programs SEC(".maps");
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
SEC("cgroup/dev") int gpus(struct bpf_cgroup_dev_ctx *ctx)
{
	return ctx->minor < 2;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	bpf_tail_call(ctx, &programs, ctx->major);
	return ctx->major == 226 || ctx->minor == 3;
}
