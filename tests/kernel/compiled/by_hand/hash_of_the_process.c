// A hash of process and device chooses a counter; the policy is beside it.
// unknown: none
struct { __uint(type, HASH); __uint(max_entries, 1024); __type(key, u32); __type(value, u64); } counters SEC(".maps");
u64 slots[64];
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 hash = (u32)(bpf_get_current_pid_tgid() >> 32) ^ ctx->minor;
	hash *= 0x9e3779b1u;
	hash ^= hash >> 15;
	hash += ctx->major * 0x85ebca77u;
	hash ^= hash << 7;
	slots[hash >> 26]++;
	u64 one = 1, *count = bpf_map_lookup_elem(&counters, &hash);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&counters, &hash, &one, 0);
	return ctx->major != 195 || ctx->minor != 3;
}
