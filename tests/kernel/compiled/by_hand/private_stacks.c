// Two functions with 400 bytes of stack each: only stacks of their own would hold them.
// refused
static NOINLINE u64 sum(volatile u64 *from, u32 count) { u64 all = 0; for (u32 i = 0; i < 50; i++) all += from[i] * count; return all; }
static NOINLINE u64 inner(u32 minor) { volatile u64 room[50]; for (u32 i = 0; i < 50; i++) room[i] = minor + i; return sum(room, minor); }
static NOINLINE u64 outer(u32 minor) { volatile u64 room[50]; for (u32 i = 0; i < 50; i++) room[i] = minor ^ i; return inner(minor) + sum(room, minor); }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	return outer(ctx->minor) & 1;
}
