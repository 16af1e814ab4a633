// A lock that can be refused, around a counter.
// unknown: none
struct bpf_res_spin_lock { u32 opaque; };
struct counted { struct bpf_res_spin_lock lock; u32 allow; u64 hits; };
extern int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __attribute__((section(".ksyms")));
extern void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct counted); } counters SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	struct counted *counted = bpf_map_lookup_elem(&counters, &key);
	if (!counted)
		return 0;
	if (ctx->major == 7 && !bpf_res_spin_lock(&counted->lock)) {
		counted->hits++;
		bpf_res_spin_unlock(&counted->lock);
	}
	return ctx->major == 195;
}
