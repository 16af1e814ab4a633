// A function goes on in another program, whose result is that of the function; the
// program goes on after it.
// unknown: none
// tail: programs 1 other
// fill: drivers c3000000 02000000
static long (*bpf_tail_call)(void *ctx, void *map, u32 index) = (void *)12;
struct { __uint(type, 3); __uint(max_entries, 4); __uint(key_size, 4); __uint(value_size, 4); } programs SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
SEC("cgroup/dev") int other(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major, *minors = bpf_map_lookup_elem(&drivers, &major);
	return minors ? ctx->minor < *minors : 1;
}
static NOINLINE int inner(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile int seen = ctx->minor & 1;
	bpf_tail_call(ctx, &programs, ctx->major == 226 ? 0 : 1);
	return seen;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 major = ctx->major;
	int result = inner(ctx);
	return major == 8 ? result == 0 : result & 1;
}
