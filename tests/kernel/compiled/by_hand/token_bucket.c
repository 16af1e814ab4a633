// Refusals are logged by a token bucket in a map: two unknown numbers at a time.
// unknown: none
struct bucket { u64 last, tokens; };
struct { __uint(type, LRU_HASH); __uint(max_entries, 64); __type(key, u64); __type(value, struct bucket); } buckets SEC(".maps");
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } records SEC(".maps");
static const volatile struct { u16 major, access; u32 first, last; } rules[3] = { { 195, 6, 0, 3 }, { 508, 6, 0, 1 }, { 1, 7, 3, 9 } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 access = ctx->access_type >> 16;
	for (int i = 0; i < 3; i++)
		if (rules[i].major == ctx->major && ctx->minor >= rules[i].first && ctx->minor <= rules[i].last && !(access & ~rules[i].access))
			return 1;
	u64 id = bpf_get_current_cgroup_id(), now = bpf_ktime_get_ns();
	struct bucket *bucket = bpf_map_lookup_elem(&buckets, &id), fresh = { now, 5 };
	if (!bucket) {
		bpf_map_update_elem(&buckets, &id, &fresh, 1);
		bucket = bpf_map_lookup_elem(&buckets, &id);
		if (!bucket) return 0;
	}
	u64 more = (now - bucket->last) / 1000000000ull;
	if (more) {
		bucket->tokens = bucket->tokens + more > 5 ? 5 : bucket->tokens + more;
		bucket->last = now;
	}
	if (bucket->tokens) {
		__sync_fetch_and_add(&bucket->tokens, -1);
		u64 *record = bpf_ringbuf_reserve(&records, 16, 0);
		if (record) {
			record[0] = id;
			record[1] = ctx->minor;
			bpf_ringbuf_submit(record, 0);
		}
	}
	return 0;
}
