// A slice of a dynptr is read, beside the policy.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, u32 offset, void *buffer, u32 size) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct entry); } m SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0, n = 3; struct entry *e = bpf_map_lookup_elem(&m, &key); struct bpf_dynptr d; volatile u32 major = ctx->major;
	u8 buffer[8]; u32 count = 0;
	if (!e) return 0;
	bpf_dynptr_from_mem(e, sizeof *e, 0, &d);
	u8 *p = bpf_dynptr_slice(&d, 0, buffer, 8);
	if (p) count += *p;
	return major == 195 && count < 300;
}