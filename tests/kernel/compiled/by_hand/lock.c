// A lock in the value that holds the policy and its hit counter.
// unknown: none
struct bpf_spin_lock { u32 val; };
struct entry_of_driver { struct bpf_spin_lock lock; u32 allow; u64 hits; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct entry_of_driver); } drivers SEC(".maps");
static long (*bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
// fill: drivers 00000000 00000000010000000000000000000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0, allow;
	struct entry_of_driver *driver = bpf_map_lookup_elem(&drivers, &key);
	if (!driver)
		return 0;
	bpf_spin_lock(&driver->lock);
	driver->hits++;
	allow = driver->allow;
	bpf_spin_unlock(&driver->lock);
	return allow && ctx->minor < 4;
}
