// A helper writes one number on the stack between others.
// unknown: major 7
static long (*bpf_strtol)(const char *text, u64 length, u64 flags, long *result) = (void *)105;
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	volatile u64 before = ctx->major;
	long number = 0;
	volatile u64 after = ctx->minor;
	char text[8] = "195";
	bpf_strtol(text, 8, 10, &number);
	return ctx->major == 7 ? number == 195 : before == 195 && after < 3;
}
