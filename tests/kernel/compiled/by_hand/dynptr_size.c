// A dynptr over a counter is made smaller and asked for its size, beside the policy.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
extern int bpf_dynptr_adjust(const struct bpf_dynptr *p, u32 start, u32 end) __attribute__((section(".ksyms")));
extern u32 bpf_dynptr_size(const struct bpf_dynptr *p) __attribute__((section(".ksyms")));
extern _Bool bpf_dynptr_is_null(const struct bpf_dynptr *p) __attribute__((section(".ksyms")));
extern _Bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *p) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } counts SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u64 *counted = bpf_map_lookup_elem(&counts, &key);
	struct bpf_dynptr dynptr;
	if (!counted)
		return 0;
	bpf_dynptr_from_mem(counted, 8, 0, &dynptr);
	bpf_dynptr_adjust(&dynptr, 2, 6);
	if (!bpf_dynptr_is_null(&dynptr) && !bpf_dynptr_is_rdonly(&dynptr))
		*counted += bpf_dynptr_size(&dynptr);
	return ctx->major == 195 && ctx->minor < 3;
}
