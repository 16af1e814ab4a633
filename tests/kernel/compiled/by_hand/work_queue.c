// A work queue whose function changes the policy some time after one question.
// unknown: some
struct bpf_wq { u64 opaque[2]; };
struct queued { struct bpf_wq work; u64 hits; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct queued); } queues SEC(".maps");
extern int bpf_wq_init(struct bpf_wq *wq, void *map, unsigned int flags) __attribute__((section(".ksyms")));
extern int bpf_wq_start(struct bpf_wq *wq, unsigned int flags) __attribute__((section(".ksyms")));
#if KERNEL < 700
extern int bpf_wq_set_callback_impl(struct bpf_wq *wq, int (*callback)(void *, int *, void *), unsigned int flags, void *aux) __attribute__((section(".ksyms")));
#define bpf_wq_set_callback(wq, callback, flags) bpf_wq_set_callback_impl(wq, callback, flags, 0)
#else
extern int bpf_wq_set_callback(struct bpf_wq *wq, int (*callback)(void *, int *, void *), unsigned int flags) __attribute__((section(".ksyms")));
#endif
u32 denied;

static int later(void *map, int *key, void *value)
{
	denied = 1;
	return 0;
}

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	if (ctx->major == 7) {
		struct queued *queued = bpf_map_lookup_elem(&queues, &key);
		if (queued && !bpf_wq_init(&queued->work, &queues, 0)) {
			bpf_wq_set_callback(&queued->work, later, 0);
			bpf_wq_start(&queued->work, 0);
		}
		return 1;
	}
	return !denied;
}
