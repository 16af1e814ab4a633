// Global functions with an argument in memory and an optional one.
// unknown: none
struct args { u32 major, minor; };
__attribute__((noinline)) int judge(struct args *args) { if (!args) return 5; return args->major * 3 + args->minor; }
__attribute__((noinline)) int twice(u32 a, u64 b, u8 c) { return (a + c) * (u32)b; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct args args = { ctx->major, ctx->minor };
	int a = judge(ctx->major == 8 ? 0 : &args), b = twice(ctx->minor, ctx->major, ctx->access_type >> 16);
	return (a ^ b) & 1;
}
