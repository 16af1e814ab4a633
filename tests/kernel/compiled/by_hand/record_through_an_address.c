// A record for user space is written through the address that a dynptr gives, by the program and a helper.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_ringbuf_reserve_dynptr)(void *ring, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)198;
static void (*bpf_ringbuf_submit_dynptr)(struct bpf_dynptr *record, u64 flags) = (void *)199;
static void *(*bpf_dynptr_data)(const struct bpf_dynptr *from, u32 offset, u32 size) = (void *)203;
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } records SEC(".maps");
u32 first = 195;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_dynptr record; u32 minor = ctx->minor, major = ctx->major;
	bpf_ringbuf_reserve_dynptr(&records, 16, 0, &record);
	u32 *p = bpf_dynptr_data(&record, 0, 16);
	if (p) { p[0] = major; p[1] = minor; p[2] = ctx->access_type; bpf_get_current_comm(p + 2, 8); }
	bpf_ringbuf_submit_dynptr(&record, 0);
	return major == first && minor < 4;
}