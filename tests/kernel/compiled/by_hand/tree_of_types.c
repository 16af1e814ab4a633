// A search tree over type, driver and minor number in an array of nodes in read-only data.
// unknown: none
struct node { u32 value; u8 field, less, more, verdict; };
static const struct node nodes[8] = { { 195, 1, 1, 2, 0 }, { 8, 1, 3, 4, 0 }, { 3, 2, 5, 6, 1 }, { 1, 0, 7, 7, 1 }, { 16, 2, 7, 5, 0 }, { 2, 0, 7, 6, 1 }, { 4, 3, 7, 7, 0 }, { 0, 9, 0, 0, 1 } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 at = 0, fields[4] = { ctx->access_type & 0xffff, ctx->major, ctx->minor, ctx->access_type >> 16 };
	volatile u32 *values = fields;
	for (int depth = 0; depth < 5; depth++) {
		const struct node *node = &nodes[at & 7];
		if (node->field > 3) return node->verdict & 1;
		u32 value = values[node->field & 3];
		if (value == node->value) return node->verdict & 1;
		at = value < node->value ? node->less : node->more;
	}
	return 0;
}
