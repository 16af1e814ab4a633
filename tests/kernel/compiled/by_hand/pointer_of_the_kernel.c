// A pointer of the kernel that is kept in the value of the policy.
// unknown: none
struct task_struct { int number; };
extern struct task_struct *bpf_task_from_pid(s32 pid) __attribute__((section(".ksyms")));
extern void bpf_task_release(struct task_struct *task) __attribute__((section(".ksyms")));
static void *(*bpf_kptr_xchg)(void *to, void *pointer) = (void *)194;
struct kept { struct task_struct __attribute__((btf_type_tag("kptr"))) *task; u32 allow; };
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct kept); } drivers SEC(".maps");
// fill: drivers 00000000 00000000000000000100000000000000

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 key = 0;
	struct kept *kept = bpf_map_lookup_elem(&drivers, &key);
	if (!kept)
		return 0;
	struct task_struct *old = bpf_kptr_xchg(&kept->task, 0);
	if (old)
		bpf_task_release(old);
	return kept->allow && ctx->major == 195;
}
