// A program makes an object of its own, and lets it go.
// unknown: major 7
struct node { u64 number; };
#if KERNEL < 702
extern void *bpf_obj_new_impl(u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
#define bpf_obj_new(type) bpf_obj_new_impl(type, 0)
#define bpf_obj_drop(object) bpf_obj_drop_impl(object, 0)
#else
extern void *bpf_obj_new(u64 type) __attribute__((section(".ksyms")));
extern void bpf_obj_drop(void *object) __attribute__((section(".ksyms")));
#endif
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct node *node;
	if (ctx->major != 7)
		return ctx->major == 195 && ctx->minor < 3;
	node = bpf_obj_new(__builtin_btf_type_id(*(struct node *)0, 0));
	if (!node)
		return 0;
	node->number = ctx->minor;
	u64 number = node->number;
	bpf_obj_drop(node);
	return number & 1;
}
