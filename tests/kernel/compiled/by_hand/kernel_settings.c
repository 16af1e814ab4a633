// Settings and the version of the kernel, which the loader writes into a map, decide.
// unknown: none
extern u32 LINUX_KERNEL_VERSION __attribute__((section(".kconfig")));
extern void bpf_no_such_function(void) __attribute__((section(".ksyms"), weak));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (bpf_no_such_function) return ctx->major == 1;
	if (LINUX_KERNEL_VERSION < 0x050500) return ctx->major == 8;
	return ctx->major == 195 && (LINUX_KERNEL_VERSION >> 16) > ctx->minor;
}
