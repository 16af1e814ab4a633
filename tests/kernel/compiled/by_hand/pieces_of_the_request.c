// The request is read in pieces of one and two bytes and put together again.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u8 *b = (u8 *)ctx; volatile u16 *h = (u16 *)ctx;
	u32 all = b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24;
	u32 also = h[0] | (u32)h[1] << 16;
	if (all != also || also != ctx->access_type) return 1;
	return b[0] == 2 && ctx->major == 195 && (h[1] == 6 || b[2] < 2);
}
