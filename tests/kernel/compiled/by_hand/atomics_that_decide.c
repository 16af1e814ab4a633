// Old values that atomic operations on the stack fetch decide.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 word = ctx->major; u32 half = ctx->minor;
	u64 old = __sync_fetch_and_add(&word, ctx->minor);
	u64 seen = __sync_val_compare_and_swap(&word, 195, 7);
	u32 or = __sync_fetch_and_or(&half, 0x80), and = __sync_fetch_and_and(&half, 0xf0), xor = __sync_fetch_and_xor(&half, 0x0f);
	u32 x = __sync_lock_test_and_set(&half, 9);
	if (old == 195) return word == 7 || (seen & 2) == 2;
	if (old == 226) return or == 128 && and == 128 && xor == 0x80 && x == 0x8f;
	return half == 9 && (x & 0x8f) == 0x8f && word == seen;
}
