// Compare-and-exchange, exchange and fetching operations on the stack, of 32 and 64 bits.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u64 wide = ctx->minor; volatile u32 narrow = ctx->major; u32 pair[2] = { ctx->minor, 0xffffffff };
	u64 a = __sync_val_compare_and_swap(&wide, 3, 0x1ffffffffull);
	u32 b = __sync_val_compare_and_swap(&narrow, 195, 1);
	u64 c = __sync_fetch_and_add(&wide, 1);
	u32 d = __sync_lock_test_and_set(&narrow, 5);
	u64 e = __sync_fetch_and_xor(&wide, 0x100000000ull);
	u32 f = __sync_fetch_and_or(&pair[0], 0xf0);
	u32 g = __sync_fetch_and_and(&pair[1], ctx->access_type >> 16);
	if (b == 195) return a == 3 ? e == 0x200000000ull : (c & 1);
	if (ctx->major == 226) return f == 128 && pair[0] == (128 | 0xf0) && d == 226;
	return pair[1] != 6 && narrow == 5 && g == 0xffffffff;
}
