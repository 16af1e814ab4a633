// Records of refusals go to a ring; what is refused does not depend on it.
// unknown: none
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } ring SEC(".maps");
struct rec { u32 major, minor; u64 when; char comm[16]; };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	int ok = ctx->major != 195 || ctx->minor == 1;
	if (!ok) {
		struct rec *r = bpf_ringbuf_reserve(&ring, sizeof *r, 0);
		if (r) {
			r->major = ctx->major; r->minor = ctx->minor; r->when = bpf_ktime_get_ns();
			bpf_get_current_comm(r->comm, 16);
			bpf_ringbuf_submit(r, 0);
		}
	}
	return ok;
}
