// The time in seconds chooses whether to count and to log; the verdict hangs on neither.
// unknown: none
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } records SEC(".maps");
u64 last, counts[64], odd;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 now = bpf_ktime_get_ns();
	if (ctx->major == 195 && ctx->minor < 4) return 1;
	if ((now / 1000000000) & 1) odd++;
	u64 slot = now / 1000 % 61;
	asm volatile("" : "+r"(slot));
	if (slot < 64) counts[slot]++;
	if ((now - last) / 1000000000) {
		last = now;
		u32 *record = bpf_ringbuf_reserve(&records, 8, 0);
		if (record) {
			record[0] = ctx->major;
			record[1] = now % 1000;
			bpf_ringbuf_submit(record, 0);
		}
	}
	return ctx->major == 1;
}
