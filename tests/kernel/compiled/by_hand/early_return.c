// bpf_loop that is left early decides by how many rounds it made.
// unknown: none
struct walk { u32 minor, left; };
static int body(u32 i, struct walk *walk) { walk->left -= 2; return i * i > walk->minor || walk->left > 100; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct walk walk = { ctx->minor & 63, 50 };
	long rounds = bpf_loop(12, body, &walk, 0);
	if (ctx->major == 7) return bpf_loop(9, body, &walk, 1) == -22;
	return (rounds & 1) == (walk.left >> 2 & 1);
}
