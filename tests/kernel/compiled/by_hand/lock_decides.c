// What is read under a lock that can be refused decides; one driver changes it there.
// unknown: some
struct bpf_res_spin_lock { u32 opaque; };
struct counted { struct bpf_res_spin_lock lock; u32 denied; };
extern int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __attribute__((section(".ksyms")));
extern void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __attribute__((section(".ksyms")));
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct counted); } state SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0, denied = 0;
	struct counted *counted = bpf_map_lookup_elem(&state, &key);
	if (!counted || bpf_res_spin_lock(&counted->lock))
		return 0;
	if (ctx->major == 7)
		counted->denied = 1;
	denied = counted->denied;
	bpf_res_spin_unlock(&counted->lock);
	return !denied;
}
