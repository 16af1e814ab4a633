// What a map keeps for a socket: a device program has no socket, and not the helper.
// refused
struct { __uint(type, 24); __uint(map_flags, 1); __type(key, int); __type(value, u64); } sockets SEC(".maps");
static void *(*bpf_sk_storage_get)(void *map, void *socket, void *value, u64 flags) = (void *)107;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 *hits = bpf_sk_storage_get(&sockets, (void *)0, 0, 0);
	return !hits && ctx->major == 195;
}
