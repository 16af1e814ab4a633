// A timer whose function changes the policy some time after one question.
// unknown: some
struct bpf_timer { u64 opaque[2]; };
struct timed { struct bpf_timer timer; u64 hits; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct timed); } timers SEC(".maps");
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } drivers SEC(".maps");
static long (*bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*bpf_timer_start)(struct bpf_timer *timer, u64 after, u64 flags) = (void *)171;
u32 denied;

static int later(void *map, u32 *key, struct timed *value)
{
	denied = 1;
	return 0;
}

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	if (ctx->major == 7) {
		struct timed *timed = bpf_map_lookup_elem(&timers, &key);
		if (timed && !bpf_timer_init(&timed->timer, &timers, 1)) {
			bpf_timer_set_callback(&timed->timer, later);
			bpf_timer_start(&timed->timer, 0, 0);
		}
		return 1;
	}
	return !denied;
}
