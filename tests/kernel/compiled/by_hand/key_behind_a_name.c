// The key lies behind what a helper writes.
// unknown: none
// fill: m 000000000000000000000000000000000000000000000000c300000002000000 01000000
struct k { u8 pad[24]; struct key key; };
struct { __uint(type, HASH); __uint(max_entries, 9); __type(key, struct k); __type(value, u32); } m SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct { char comm[16]; struct k k; } s = {};
	s.k.key.major = ctx->major; s.k.key.minor = ctx->minor;
	bpf_get_current_comm(s.comm, 16);
	return bpf_map_lookup_elem(&m, &s.k) != 0;
}