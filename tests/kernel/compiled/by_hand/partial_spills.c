// Numbers on the stack are written over in part, at odd places, and read whole.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile struct { u64 a, b; } slots = { 0x1122334455667788, 0x99aabbccddeeff00 };
	volatile u8 *bytes = (volatile u8 *)&slots;
	u64 whole, half;
	bytes[1] = ctx->minor;
	*(volatile u16 *)(bytes + 6) = ctx->major;
	*(volatile u32 *)(bytes + 12) = ctx->access_type;
	whole = slots.a;
	asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(half) : "r"(&slots.b));
	bytes[7] = 0;
	if (ctx->major == 7)
		return (slots.a ^ whole) >> 56 == 0 && (half >> 32 & 0xffff) == (ctx->access_type & 0xffff);
	return (whole >> 48) == (ctx->major & 0xffff) && (half & 0xff) == 0 && (whole >> 8 & 3) == 3;
}
