// Objects of the program are kept in the value of the policy and exchanged by every question.
// unknown: none
struct own_object { u64 number; };
extern void *bpf_obj_new_impl(u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
static void *(*bpf_kptr_xchg)(void *to, void *pointer) = (void *)194;
struct kept { u32 allow; struct own_object __attribute__((btf_type_tag("kptr"))) *node; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct kept); } drivers SEC(".maps");
// fill: drivers 00000000 01000000000000000000000000000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	struct kept *kept = bpf_map_lookup_elem(&drivers, &key);
	if (!kept)
		return 0;
	struct own_object *node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct own_object *)0, 0), 0);
	if (node) {
		node->number = ctx->minor;
		node = bpf_kptr_xchg(&kept->node, node);
		if (node)
			bpf_obj_drop_impl(node, 0);
	}
	return kept->allow && ctx->major == 195 && ctx->minor < 3;
}
