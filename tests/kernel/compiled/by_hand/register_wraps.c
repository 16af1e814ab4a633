// Sums, products and differences wrap around in 32 bits, and leave no higher bit.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 minor = ctx->minor, sum, product, difference, negated;
	asm volatile("r1 = %1; w1 += -256; %0 = r1" : "=r"(sum) : "r"(minor) : "r1");
	asm volatile("r1 = %1; w1 *= 0x1000001; %0 = r1" : "=r"(product) : "r"(minor) : "r1");
	asm volatile("r2 = %1; r1 = 1; w1 -= w2; %0 = r1" : "=r"(difference) : "r"(minor) : "r1", "r2");
	asm volatile("r1 = %1; w1 = -w1; %0 = r1" : "=r"(negated) : "r"(minor) : "r1");
	if (sum >> 32 || product >> 32 || difference >> 32 || negated >> 32)
		return 0;
	if (ctx->major == 7)
		return (s64)sum < 0;
	return sum == 0xffffffff || product == 0x3000003 || difference == 0xffffffff || negated == 0xfffffffc;
}
