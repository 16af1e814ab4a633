// Comparisons of half registers, with numbers that are negative in one reading only.
// unknown: none
#define WHEN(condition, bit) \
	asm volatile("r1 = %1; r2 = %2; if " condition " goto +1; %0 |= " #bit : "+r"(seen) : "r"(a), "r"(b) : "r1", "r2")
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 seen = 0, a = (u64)ctx->minor << 29 | 0xf00000000ull, b = ctx->major - 196;
	WHEN("w1 s> w2", 1);
	WHEN("w1 > w2", 2);
	WHEN("r1 s> r2", 4);
	WHEN("w1 s<= -1", 8);
	WHEN("w2 & 0x80000000", 16);
	WHEN("r1 & -2147483648", 32);
	WHEN("r2 == -1", 64);
	WHEN("w2 == -1", 128);
	return (0x96a5 >> (seen >> 2 & 15) ^ seen >> 6) & 1;
}
