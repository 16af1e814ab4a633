// The number in an object that is kept in a map decides, and each question leaves another one there.
// unknown: some
struct own_object { u64 number; };
extern void *bpf_obj_new_impl(u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
static void *(*bpf_kptr_xchg)(void *to, void *pointer) = (void *)194;
struct kept { struct own_object __attribute__((btf_type_tag("kptr"))) *node; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct kept); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	u64 before = 0;
	struct kept *kept = bpf_map_lookup_elem(&drivers, &key);
	struct own_object *node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct own_object *)0, 0), 0);
	if (!kept || !node) {
		if (node)
			bpf_obj_drop_impl(node, 0);
		return 0;
	}
	node->number = ctx->minor & 1;
	node = bpf_kptr_xchg(&kept->node, node);
	if (node) {
		before = node->number;
		bpf_obj_drop_impl(node, 0);
	}
	return !before;
}
