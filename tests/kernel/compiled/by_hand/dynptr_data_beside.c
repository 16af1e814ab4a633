// A record of a map is written through a dynptr and the address that it gives, beside the policy.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
static long (*bpf_dynptr_read)(void *to, u32 size, const struct bpf_dynptr *from, u32 offset, u64 flags) = (void *)201;
static long (*bpf_dynptr_write)(const struct bpf_dynptr *to, u32 offset, void *from, u32 size, u64 flags) = (void *)202;
static void *(*bpf_dynptr_data)(const struct bpf_dynptr *from, u32 offset, u32 size) = (void *)203;
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct entry); } m SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0, n = 3; struct entry *e = bpf_map_lookup_elem(&m, &key); struct bpf_dynptr d; volatile u32 major = ctx->major;
	if (!e) return 0;
	bpf_dynptr_from_mem(e, sizeof *e, 0, &d);
	bpf_dynptr_write(&d, 4, &n, 4, 0);
	bpf_dynptr_read(&n, 4, &d, 8, 0);
	u8 *p = bpf_dynptr_data(&d, 0, 8);
	if (p) *p += 1;
	return major == 195;
}