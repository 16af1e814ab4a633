// What exchanges of half registers leave in the upper bits of theirs.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u64 slot = 0x5500000000ull | ctx->minor;
	u64 swapped, fetched, compared, minor = ctx->minor & 3;
	asm volatile("r0 = %1; r1 = 9; w0 = cmpxchg32_32(%2 + 0, w0, w1); %0 = r0"
		     : "=r"(compared) : "r"(minor | 0x7700000000), "r"(&slot) : "r0", "r1", "memory");
	asm volatile("r1 = -7; w1 = xchg32_32(%1 + 0, w1); %0 = r1" : "=r"(swapped) : "r"(&slot) : "r1", "memory");
	asm volatile("r1 = -1; w1 = atomic_fetch_add((u32 *)(%1 + 0), w1); %0 = r1" : "=r"(fetched) : "r"(&slot) : "r1", "memory");
	if (swapped >> 32 || fetched >> 32 || slot >> 32 != 0x55)
		return 0;
	return ctx->major == 195 ? swapped == 9 : ctx->major == 226 ? compared == ctx->minor : fetched == 0xfffffff9;
}
