// Shifts by numbers that are as large as the register, or larger.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 by = ctx->minor & 0x7f, short_left, long_left, short_right, long_right;
	asm volatile("r2 = %1; r1 = 3; w1 <<= w2; %0 = r1" : "=r"(short_left) : "r"(by) : "r1", "r2");
	asm volatile("r1 = 3; r1 <<= %1; %0 = r1" : "=r"(long_left) : "r"(by) : "r1");
	asm volatile("r2 = %1; r1 = -9; w1 s>>= w2; %0 = r1" : "=r"(short_right) : "r"(by) : "r1", "r2");
	asm volatile("r1 = -9; r1 s>>= %1; %0 = r1" : "=r"(long_right) : "r"(by) : "r1");
	switch (ctx->major) {
	case 195: return (short_left & 6) != 0;
	case 226: return (long_left & 0x80000000c) != 0;
	case 1: return short_right == 0xffffffff;
	case 8: return long_right == (u64)-1;
	default: return short_left > long_left || short_right >> 32;
	}
}
