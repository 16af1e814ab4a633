// Too complex as a whole, with counters of all kinds beside the policy.
// unknown: none
struct counted { u32 allow; u32 pad; u64 hits; };
struct { __uint(type, ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, struct counted); } drivers SEC(".maps");
struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 4); __type(key, u32); __type(value, u64); } on_this_cpu SEC(".maps");
struct { __uint(type, PERCPU_HASH); __uint(max_entries, 64); __type(key, u32); __type(value, u64); } by_driver SEC(".maps");
struct { __uint(type, HASH); __uint(max_entries, 64); __type(key, u32); __type(value, u64); } last SEC(".maps");
struct { __uint(type, RINGBUF); __uint(max_entries, 65536); } records SEC(".maps");
u64 all;
u32 first = 195;
// fill: drivers 01000000 01000000000000000000000000000000
// fill: drivers 03000000 01000000000000000000000000000000

static NOINLINE void count(u64 *hits)
{
	__sync_fetch_and_add(hits, 1);
}

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 mixed = (ctx->major << 20 | ctx->minor) * 2654435761u;
	mixed = (mixed ^ mixed >> 13) * 0x5bd1e995 + 0xdead;
	mixed = (mixed ^ mixed >> 15) % 5;
	u32 key = ctx->minor & 3, major = ctx->major;
	u64 now = bpf_ktime_get_ns(), one = 1, *hits;
	struct counted *counted = bpf_map_lookup_elem(&drivers, &key);
	if (!counted)
		return 0;
	counted->hits += mixed;
	if ((hits = bpf_map_lookup_elem(&on_this_cpu, &key)))
		count(hits);
	if ((hits = bpf_map_lookup_elem(&by_driver, &major)))
		count(hits);
	else
		bpf_map_update_elem(&by_driver, &major, &one, 0);
	bpf_map_update_elem(&last, &major, &now, 0);
	u64 *record = bpf_ringbuf_reserve(&records, 8, 0);
	if (record) {
		*record = major;
		bpf_ringbuf_submit(record, 0);
	}
	count(&all);
	return counted->allow || mixed == 3 && major == first;
}
