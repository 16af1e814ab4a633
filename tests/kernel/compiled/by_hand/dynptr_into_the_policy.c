// The policy is changed through a dynptr.
// unknown: some
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
static long (*bpf_dynptr_write)(const struct bpf_dynptr *to, u32 offset, void *from, u32 size, u64 flags) = (void *)202;
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } drivers SEC(".maps");

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u64 *denied = bpf_map_lookup_elem(&drivers, &key);
	if (!denied)
		return 0;
	if (ctx->major == 7) {
		struct bpf_dynptr dynptr;
		u64 one = 1;
		bpf_dynptr_from_mem(denied, 8, 0, &dynptr);
		bpf_dynptr_write(&dynptr, 0, &one, 8, 0);
		return 1;
	}
	return !*denied;
}
