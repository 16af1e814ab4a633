// Too complex as a whole and writes; a simple program beside it reads, and decides.
// unknown: some
// attach: writer multi
// attach: reader multi
volatile u32 last;

SEC("cgroup/dev") int writer(struct bpf_cgroup_dev_ctx *ctx)
{
	last = ctx->minor;
	u32 hash = ctx->minor ^ ctx->major << 20;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35u;
	hash ^= hash >> 16;
	return hash != 12345;
}

SEC("cgroup/dev") int reader(struct bpf_cgroup_dev_ctx *ctx)
{
	return last != 3;
}
