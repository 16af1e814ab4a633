// What a stack has on top decides; one driver's questions push onto it.
// unknown: some
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_map_peek_elem)(void *map, void *value) = (void *)89;
struct { __uint(type, 23); __uint(max_entries, 4); __uint(key_size, 0); __type(value, u32); } seen SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 top = 0, major = ctx->major;
	if (ctx->major == 7) {
		bpf_map_push_elem(&seen, &major, 2);
		return 1;
	}
	return bpf_map_peek_elem(&seen, &top) < 0 || top != 7;
}
