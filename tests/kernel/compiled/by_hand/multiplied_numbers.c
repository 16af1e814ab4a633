// A hash that no policy can show: each question is answered by itself.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 hash = (ctx->major << 20 | ctx->minor) * 0x9e3779b1;
	hash ^= hash >> 15;
	hash *= 0x85ebca77;
	hash ^= hash >> 13;
	return hash % 7 < 4 || ctx->major == 1;
}
