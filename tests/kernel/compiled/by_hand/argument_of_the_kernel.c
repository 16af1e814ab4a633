// The argument as the kernel's own structure, by bpf_cast_to_kern_ctx.
// unknown: none
extern void *bpf_cast_to_kern_ctx(void *) __attribute__((section(".ksyms")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_cgroup_dev_ctx *k = bpf_cast_to_kern_ctx(ctx);
	u32 major = 0;
	bpf_probe_read_kernel(&major, 4, &k->major);
	return major == 195 && ctx->minor == 1;
}
