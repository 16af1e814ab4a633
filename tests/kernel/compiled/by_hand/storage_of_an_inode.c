// What a map keeps for a file: only security modules have files.
// refused
struct { __uint(type, 28); __uint(map_flags, 1); __type(key, int); __type(value, u64); } inodes SEC(".maps");
static void *(*bpf_inode_storage_get)(void *map, void *inode, void *value, u64 flags) = (void *)145;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 *hits = bpf_inode_storage_get(&inodes, (void *)0, 0, 0);
	return !hits && ctx->major == 195;
}
