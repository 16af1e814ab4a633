// A dynptr over a counter in another map, read and written by helpers, beside the policy.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_dynptr_from_mem)(void *data, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)197;
static long (*bpf_dynptr_read)(void *to, u32 size, const struct bpf_dynptr *from, u32 offset, u64 flags) = (void *)201;
static long (*bpf_dynptr_write)(const struct bpf_dynptr *to, u32 offset, void *from, u32 size, u64 flags) = (void *)202;
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } counts SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
// fill: drivers 00000000 c3000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0, *driver = bpf_map_lookup_elem(&drivers, &key);
	u64 count = 0, *counted = bpf_map_lookup_elem(&counts, &key);
	struct bpf_dynptr dynptr;
	if (!counted || !driver)
		return 0;
	bpf_dynptr_from_mem(counted, 8, 0, &dynptr);
	bpf_dynptr_read(&count, 8, &dynptr, 0, 0);
	count++;
	bpf_dynptr_write(&dynptr, 0, &count, 8, 0);
	return ctx->major == *driver && ctx->minor < 3;
}
