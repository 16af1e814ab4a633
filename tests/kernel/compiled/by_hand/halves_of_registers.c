// 32-bit results used as 64-bit numbers.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 a = ctx->minor, b = ctx->major, r;
	asm volatile("%0 = %1; %0 = -%0; w3 = %w0; w3 += %w2; %0 >>= 32; %0 += r3" : "=&r"(r) : "r"(a), "r"(b) : "r3");
	if (r > 0xffffffff) return (r & 3) == 1;
	asm volatile("r3 = -1; w3 <<= %w1; w3 s>>= 3; r3 += %2; %0 = r3" : "=r"(r) : "r"(b), "r"(a) : "r3");
	return (r >> 31 & 1) || r % 3 == 0;
}
