// Refusals are printed to the program's own stream (Linux 6.17), and to the trace.
// unknown: none
#if KERNEL < 700
extern int bpf_stream_vprintk_impl(int stream, const char *format, const void *arguments, u32 size, void *aux) __attribute__((section(".ksyms")));
#define bpf_stream_vprintk(stream, format, arguments, size) bpf_stream_vprintk_impl(stream, format, arguments, size, 0)
#else
extern int bpf_stream_vprintk(int stream, const char *format, const void *arguments, u32 size) __attribute__((section(".ksyms")));
#endif
static long (*bpf_trace_vprintk)(const char *format, u32 size, const void *arguments, u32 length) = (void *)177;
static const char format[] = "refused %d:%d\n";
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u64 arguments[2] = { ctx->major, ctx->minor };
	if (ctx->major == 195 && ctx->minor < 2) return 1;
	bpf_trace_vprintk(format, sizeof(format), arguments, 16);
	return bpf_stream_vprintk(2, format, arguments, 16) < 0 ? ctx->major == 1 : ctx->major == 1;
}
