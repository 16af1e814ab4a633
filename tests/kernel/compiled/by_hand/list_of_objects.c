// A list of objects in a map: each question adds one and takes one out, for one driver.
// unknown: major 7
#define private(name) SEC(".data." #name) __attribute__((aligned(8)))
struct bpf_spin_lock { u32 val; };
struct bpf_list_head { u64 opaque[2]; } __attribute__((aligned(8)));
struct bpf_list_node { u64 opaque[3]; } __attribute__((aligned(8)));
struct node { struct bpf_list_node in; u64 number; };
extern void *bpf_obj_new_impl(u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
#if KERNEL < 702
extern int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta, u64 off) __attribute__((section(".ksyms")));
#define bpf_list_push_front(head, node) bpf_list_push_front_impl(head, node, 0, 0)
#else
extern int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node) __attribute__((section(".ksyms")));
#endif
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head) __attribute__((section(".ksyms")));
static long (*bpf_spin_lock)(void *lock) = (void *)93;
static long (*bpf_spin_unlock)(void *lock) = (void *)94;
private(list) struct bpf_spin_lock lock;
private(list) struct bpf_list_head head __attribute__((btf_decl_tag("contains:node:in")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major != 7)
		return ctx->major == 195 && ctx->minor < 3;
	struct node *node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct node *)0, 0), 0);
	struct bpf_list_node *last;
	if (!node)
		return 0;
	bpf_spin_lock(&lock);
	bpf_list_push_front(&head, &node->in);
	last = bpf_list_pop_back(&head);
	bpf_spin_unlock(&lock);
	if (last)
		bpf_obj_drop_impl((struct node *)last, 0);
	return 1;
}
