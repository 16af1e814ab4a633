// Keys of 64 bytes, of which most are zero, in two tables; one is per CPU with equal values.
// unknown: none
// fill: first c3000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001000000 01000000
// fill each CPU: second e2000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000080000000 0100000000000000
struct long_key { u32 major; u32 pad[14]; u32 minor; };
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, struct long_key); __type(value, u32); } first SEC(".maps");
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 8); __type(key, struct long_key); __type(value, u64); } second SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct long_key key = { .major = ctx->major, .minor = ctx->minor };
	u32 *a = bpf_map_lookup_elem(&first, &key); u64 *b = bpf_map_lookup_elem(&second, &key);
	return (a && *a) || (b && *b == 1);
}
