// What user space sends is read by a function that changes the policy.
// unknown: some
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_user_ringbuf_drain)(void *map, void *callback, void *ctx, u64 flags) = (void *)209;
struct { __uint(type, 31); __uint(max_entries, 4096); } ring SEC(".maps");
u32 denied;
static long each(struct bpf_dynptr *message, u32 *ctx)
{
	denied = 1;
	return 0;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 nothing = 0;
	if (ctx->major == 7) {
		bpf_user_ringbuf_drain(&ring, each, &nothing, 0);
		return 1;
	}
	return !denied;
}
