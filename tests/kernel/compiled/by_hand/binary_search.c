// A binary search over sorted (major, minor) pairs in read-only data.
// unknown: none
static const u64 table[8] = { 0x100000003ull, 0x800000010ull, 0xc300000000ull, 0xc300000002ull, 0xc3000000ffull, 0xe200000080ull, 0x1fc000f0f00ull, 0xfff000fffffull };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 key = (u64)ctx->major << 32 | ctx->minor;
	u32 lo = 0, hi = 8;
	while (lo < hi) {
		u32 mid = (lo + hi) / 2;
		if (mid > 7) break;
		if (table[mid & 7] < key) lo = mid + 1; else hi = mid;
	}
	return lo < 8 && table[lo & 7] == key && (ctx->access_type & 0xffff) == 2;
}
