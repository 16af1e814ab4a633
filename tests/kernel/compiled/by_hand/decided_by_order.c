// Two programs that set errors run in the order that flags and levels give; each undoes the other's.
// unknown: none
// attach: first multi up 1
// attach: second multi preorder
// attach: third multi
SEC("cgroup/dev") int first(struct bpf_cgroup_dev_ctx *ctx) { if (ctx->major == 195) bpf_set_retval(ctx->minor ? -13 : 0); return 1; }
SEC("cgroup/dev") int second(struct bpf_cgroup_dev_ctx *ctx) { if (ctx->minor == 0 || ctx->minor == 2) bpf_set_retval(-1); return ctx->major != 1; }
SEC("cgroup/dev") int third(struct bpf_cgroup_dev_ctx *ctx) { if (bpf_get_retval() == -1) bpf_set_retval(ctx->major == 226 ? 0 : -2); return 1; }
