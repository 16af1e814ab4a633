// Entries of a table are visited until one fits; what the function writes to its context decides.
// unknown: none
// fill: ranges 00000000 c30000000000000002000000
// fill: ranges 01000000 e20000008000000083000000
// fill: ranges 02000000 c30000000300000003000000
struct range { u32 major, first, last; };
struct found { u32 major, minor; int at; };
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct range); } ranges SEC(".maps");
static long visit(void *map, u32 *key, struct range *range, struct found *found)
{
	if (range->major != found->major || found->minor < range->first || found->minor > range->last) return 0;
	found->at = *key + 1;
	return 1;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct found found = { ctx->major, ctx->minor };
	long visited = bpf_for_each_map_elem(&ranges, visit, &found, 0);
	return found.at ? found.at != 3 && visited == found.at : visited == 4 && ctx->major == 7;
}
