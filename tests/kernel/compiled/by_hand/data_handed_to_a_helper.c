// A helper writes to the policy through the address that a dynptr gives.
// unknown: some
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
static void *(*bpf_dynptr_data)(const struct bpf_dynptr *from, u32 offset, u32 size) = (void *)203;
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct entry); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0; struct entry *denied = bpf_map_lookup_elem(&drivers, &key);
	if (!denied) return 0;
	if (ctx->major == 7) {
		struct bpf_dynptr d;
		bpf_dynptr_from_mem(denied, 16, 0, &d);
		void *p = bpf_dynptr_data(&d, 0, 16);
		if (p) bpf_get_current_comm(p, 16);
		return 1;
	}
	return !denied->allow;
}