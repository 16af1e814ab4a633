// The question says where on the stack is written, and where is read.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u16 table[8] = { 195, 226, 1, 8, 508, 3, 4, 5 };
	table[ctx->minor & 7] = ctx->major;
	((volatile u8 *)table)[ctx->major & 15] = ctx->access_type;
	return table[(ctx->minor >> 1) & 7] == (ctx->major & 0xffff) || table[7] == 5;
}
