// A lock that can be refused and turns interrupts off, around a counter.
// unknown: none
struct bpf_res_spin_lock { u32 opaque; };
struct counted { struct bpf_res_spin_lock lock; u32 allow; u64 hits; };
extern int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags) __attribute__((section(".ksyms")));
extern void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct counted); } counters SEC(".maps");
// fill: counters 00000000 00000000010000000000000000000000
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	unsigned long flags;
	struct counted *counted = bpf_map_lookup_elem(&counters, &key);
	if (!counted)
		return 0;
	if (!bpf_res_spin_lock_irqsave(&counted->lock, &flags)) {
		counted->hits++;
		bpf_res_spin_unlock_irqrestore(&counted->lock, &flags);
	}
	return counted->allow && ctx->major == 195 && ctx->minor < 3;
}
