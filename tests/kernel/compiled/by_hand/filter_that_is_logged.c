// A Bloom filter says what is logged; the number that it is asked about decides.
// unknown: none
struct { __uint(type, 30); __uint(max_entries, 16); __uint(key_size, 0); __type(value, u32); } seen SEC(".maps");
static long (*bpf_map_peek_elem)(void *map, void *value) = (void *)89;
static long (*bpf_trace_printk)(const char *f, u32 n, ...) = (void *)6;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	char fmt[] = "seen";
	u32 number = ctx->minor;
	if (bpf_map_peek_elem(&seen, &number) == 0) bpf_trace_printk(fmt, sizeof fmt);
	return ctx->major == 195 && number < 3;
}