// Places on the stack are written on one path, or in part there, and read on that path alone.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 whole;
	u16 halves[4];
	volatile u64 *number = &whole;
	volatile u16 *part = halves;
	u32 major = ctx->major, minor = ctx->minor;
	if (major == 195)
		*number = minor;
	else if (major == 226) {
		*number = ~0ull;
		part[1] = minor;
		part[2] = 128;
	}
	if (minor < 129)
		part[0] = major;
	else
		part[3] = minor >> 4;
	asm volatile("" ::: "memory");
	if (major == 195)
		return *number < 3;
	if (major == 226)
		return *number > 1 && part[1] == part[2];
	return minor < 129 ? part[0] == 1 : part[3] == 0x50;
}
