// The policy is changed through the copy of a dynptr.
// unknown: some
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
static void *(*bpf_dynptr_data)(const struct bpf_dynptr *from, u32 offset, u32 size) = (void *)203;
extern int bpf_dynptr_clone(const struct bpf_dynptr *p, struct bpf_dynptr *clone) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0; u64 *denied = bpf_map_lookup_elem(&drivers, &key);
	if (!denied) return 0;
	if (ctx->major == 7) {
		struct bpf_dynptr d, e;
		bpf_dynptr_from_mem(denied, 8, 0, &d);
		bpf_dynptr_clone(&d, &e);
		u64 *slice = bpf_dynptr_data(&e, 0, 8);
		if (slice) *slice = 1;
		return 1;
	}
	return !*denied;
}