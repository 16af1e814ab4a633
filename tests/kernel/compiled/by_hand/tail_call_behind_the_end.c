// Indices behind the end of a map for tail calls fall through.
// unknown: none
// tail: programs 0 other
struct { __uint(type, 3); __uint(max_entries, 2); __uint(key_size, 4); __uint(value_size, 4); } programs SEC(".maps");
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
SEC("cgroup/dev") int other(struct bpf_cgroup_dev_ctx *ctx) { return ctx->minor == 0; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	bpf_tail_call(ctx, &programs, ctx->major == 226 ? 0 : ctx->major + 2);
	return ctx->major == 195;
}
