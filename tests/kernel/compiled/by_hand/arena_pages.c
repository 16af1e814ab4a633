// Pages of an arena are taken and given back: before Linux 7.0 only programs that may sleep had these functions.
// unknown: none
// since: 7.0
// set: v4
#define __arena __attribute__((address_space(1)))
struct { __uint(type, 33); __uint(map_flags, 1 << 10); __uint(max_entries, 4); __uint(map_extra, 0x10000000); } shared SEC(".maps");
extern void __arena *bpf_arena_alloc_pages(void *map, void __arena *at, u32 pages, int node, u64 flags) __attribute__((section(".ksyms")));
extern void bpf_arena_free_pages(void *map, void __arena *at, u32 pages) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 7) {
		u64 __arena *page = bpf_arena_alloc_pages(&shared, 0, 1, -1, 0);
		if (page) {
			*page = ctx->minor;
			bpf_arena_free_pages(&shared, page, 1);
		}
	}
	return ctx->major == 195 && ctx->minor < 3;
}
