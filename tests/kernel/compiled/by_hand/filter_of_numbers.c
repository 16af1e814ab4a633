// A Bloom filter of device numbers decides for one driver; another one adds to it.
// unknown: some
// until: 7.1
// Linux 7.2 takes what a filter is asked for to be written by the call.
struct { __uint(type, 30); __uint(max_entries, 16); __uint(key_size, 0); __type(value, u32); } seen SEC(".maps");
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_map_peek_elem)(void *map, void *value) = (void *)89;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 number = ctx->minor;
	if (ctx->major == 7)
		bpf_map_push_elem(&seen, &number, 0);
	return ctx->major == 195 && bpf_map_peek_elem(&seen, &number) == 0;
}
