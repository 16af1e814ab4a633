// A timer is in the value that has the policy, and starts itself again.
// unknown: none
// fill: timed 00000000 00000000000000000000000000000000c300000000000000
struct bpf_timer { u64 opaque[2]; };
struct timed { struct bpf_timer timer; u32 major, ticks; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct timed); } timed SEC(".maps");
static long (*bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*bpf_timer_start)(struct bpf_timer *timer, u64 after, u64 flags) = (void *)171;

static int tick(void *map, u32 *key, struct timed *value)
{
	value->ticks++;
	bpf_timer_start(&value->timer, 1000000, 0);
	return 0;
}

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	struct timed *value = bpf_map_lookup_elem(&timed, &key);
	if (!value) return 0;
	if (ctx->major == 7 && !bpf_timer_init(&value->timer, &timed, 1)) {
		bpf_timer_set_callback(&value->timer, tick);
		bpf_timer_start(&value->timer, 1000000, 0);
	}
	return ctx->major != value->major;
}
