// Bytes of the stack are written and read at places that the numbers give.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u8 seen[16] = {};
	u32 minor = ctx->minor, major = ctx->major;
	seen[minor & 15] = major;
	seen[(minor + major) & 15] += 3;
	seen[(major >> 4) & 15] ^= 0x41;
	u32 sum = 0;
	for (int i = 0; i < 16; i++) sum = sum * 3 + seen[i];
	return (sum & 3) == 1 || seen[minor & 15] == 195;
}
