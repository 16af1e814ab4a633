// The buffer of a slice is in the map that decides.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_ringbuf_reserve_dynptr)(void *ring, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)198;
static void (*bpf_ringbuf_discard_dynptr)(struct bpf_dynptr *record, u64 flags) = (void *)200;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, u64 offset, void *buffer, u64 size) __attribute__((section(".ksyms")));
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } records SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct entry); } m SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0, n = 0; struct entry *e = bpf_map_lookup_elem(&m, &key); struct bpf_dynptr d;
	if (!e) return 0;
	bpf_ringbuf_reserve_dynptr(&records, 16, 0, &d);
	u8 *p = bpf_dynptr_slice(&d, 0, &e->hits, 8);
	if (p) n = *p;
	bpf_ringbuf_discard_dynptr(&d, 0);
	return e->allow == 0 && ctx->major == 195 && n < 256;
}
