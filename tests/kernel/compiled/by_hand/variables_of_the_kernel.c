// Variables of the kernel: one that the loader writes as a constant, and one of each CPU.
// unknown: major 7
extern u32 LINUX_KERNEL_VERSION __attribute__((section(".kconfig")));
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	if (ctx->major == 7)
		return bpf_get_smp_processor_id() & 1;
	return LINUX_KERNEL_VERSION > 0x40000 && ctx->major == 195 && ctx->minor < 3;
}
