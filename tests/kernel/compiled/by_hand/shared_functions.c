// A global function that gets the argument of the program, and one of another program in the same file.
// unknown: none
// attach: policy multi
// attach: other multi up 1
__attribute__((noinline, weak)) int is_gpu(struct bpf_cgroup_dev_ctx *ctx) { return ctx->major == 195 && ctx->minor < 3; }
__attribute__((noinline, weak)) int mode(struct bpf_cgroup_dev_ctx *ctx, u32 mask) { return (ctx->access_type >> 16 & ~mask) == 0; }
SEC("cgroup/dev") int other(struct bpf_cgroup_dev_ctx *ctx) { return is_gpu(ctx) == 1 || ctx->major != 226; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx) { return is_gpu(ctx) == 1 ? mode(ctx, 6) == 1 : mode(ctx, 3) != 0; }
