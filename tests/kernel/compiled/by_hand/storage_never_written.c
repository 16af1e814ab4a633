// What maps keep for the cgroup to which the program is attached decides; no program
// writes it.
// unknown: none
// attach: policy multi up 1
// attach: policy multi
struct bpf_cgroup_storage_key { u64 cgroup; u32 attach_type; };
struct { __uint(type, 19); __type(key, struct bpf_cgroup_storage_key); __type(value, u64); } one SEC(".maps");
struct { __uint(type, 21); __type(key, u64); __type(value, u64); } each SEC(".maps");
static void *(*bpf_get_local_storage)(void *map, u64 flags) = (void *)81;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 *a = bpf_get_local_storage(&one, 0), *b = bpf_get_local_storage(&each, 0);
	return *a + *b ? 0 : ctx->minor != 3;
}
