// Subregisters: 32-bit operations clear upper halves in odd places.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 r, q, major = ctx->major, minor = ctx->minor;
	asm volatile("r2 = 0xffffffff00000000 ll; r2 |= %[m]; r3 = r2; w3 = w3; r4 = r2; w4 += -195; r4 <<= 32; r4 >>= 32; if r4 == 0 goto +2; r2 = 0; goto +1; r2 = r3; r2 += -194; %[r] = r2" : [r]"=r"(r) : [m]"r"(major) : "r2", "r3", "r4");
	asm volatile("r2 = %[m]; r2 = -r2; w2 s>>= 1; w3 = w2; r3 <<= 1; w4 = w3; w4 = -w4; %[q] = r4" : [q]"=r"(q) : [m]"r"(minor) : "r2", "r3", "r4");
	if (r == 1) return q == minor && minor < 4;
	return (u32)r == (u32)-194 && q == ((minor + 1) & ~1u);
}
