// Loops whose counter wraps around in a byte.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u8 i = 250;
	u32 sum = 0, rounds = 0;
	do {
		sum = sum * 3 + (ctx->minor >> (i & 7) & 1);
		asm volatile("" : "+r"(i));
		i += 3;
	} while (i != 19 && ++rounds < 12);
	return (sum & 1) ^ (ctx->major == 195) ^ (i == 19);
}
