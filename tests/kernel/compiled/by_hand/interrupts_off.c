// Interrupts are off while the policy is read; what they were is on the stack, and read by a helper.
// unknown: major 7
extern void bpf_local_irq_save(unsigned long *flags) __attribute__((section(".ksyms")));
extern void bpf_local_irq_restore(unsigned long *flags) __attribute__((section(".ksyms")));
// fill: drivers 00000000 c3000000
struct { __uint(type, ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u32); } drivers SEC(".maps");
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	unsigned long flags;
	u64 read = 0;
	u32 key = 0, *driver = bpf_map_lookup_elem(&drivers, &key), first = 0;
	bpf_local_irq_save(&flags);
	if (driver)
		first = *driver;
	if (ctx->major == 7)
		bpf_probe_read_kernel(&read, 8, &flags);
	bpf_local_irq_restore(&flags);
	return ctx->major == 7 ? read & 1 : ctx->major == first && ctx->minor < 3;
}
