// Structures as keys, with bytes between the fields.
// unknown: none
struct rule { u8 kind; u16 minor; u32 major; } __attribute__((aligned(8)));
struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, struct rule); __type(value, u8); } rules SEC(".maps");
// fill: rules 02000100c3000000 07
// fill: rules 01001f0008000000 02
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct rule rule; __builtin_memset(&rule, 0, sizeof rule);
	rule.kind = ctx->access_type; rule.minor = ctx->minor; rule.major = ctx->major;
	u8 *found = bpf_map_lookup_elem(&rules, &rule);
	u8 access = ctx->access_type >> 16;
	return found && (*found & access) == access;
}
