// A program makes an object of its own, and lets it go.
// unknown: major 7
struct node { u64 number; };
extern void *bpf_obj_new_impl(u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct node *node;
	if (ctx->major != 7)
		return ctx->major == 195 && ctx->minor < 3;
	node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct node *)0, 0), 0);
	if (!node)
		return 0;
	node->number = ctx->minor;
	u64 number = node->number;
	bpf_obj_drop_impl(node, 0);
	return number & 1;
}
