// A record for user space, written through a dynptr, beside the policy.
// unknown: none
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));
static long (*bpf_ringbuf_reserve_dynptr)(void *ring, u32 size, u64 flags, struct bpf_dynptr *to) = (void *)198;
static void (*bpf_ringbuf_submit_dynptr)(struct bpf_dynptr *record, u64 flags) = (void *)199;
static long (*bpf_dynptr_write)(const struct bpf_dynptr *to, u32 offset, void *from, u32 size, u64 flags) = (void *)202;
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } records SEC(".maps");
u32 first = 195;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_dynptr record;
	volatile u32 major = ctx->major, minor = ctx->minor;
	bpf_ringbuf_reserve_dynptr(&records, 8, 0, &record);
	bpf_dynptr_write(&record, 0, (void *)&minor, 4, 0);
	bpf_ringbuf_submit_dynptr(&record, 0);
	return major == first && minor < 4;
}
