// A function that bpf_loop calls a computed number of times ends the program by an exception.
// refused
extern void bpf_throw(u64 cookie) __attribute__((section(".ksyms")));
static int body(u32 i, u32 *minor) { if (i == 2 && *minor == 3) bpf_throw(0); return 0; }
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 minor = ctx->minor, rounds = ctx->major & 7;
	bpf_loop(rounds, body, &minor, 0);
	return 1;
}
