// Helpers write text and numbers to the stack next to what decides; some of it is overwritten.
// unknown: none
static long (*bpf_snprintf)(char *to, u32 size, const char *format, u64 *data, u32 bytes) = (void *)165;
static long (*bpf_strtol)(const char *text, u32 size, u64 flags, long *to) = (void *)105;
struct pid { u32 pid, tgid; };
static const char format[] = "%d:%d";
static const char digits[] = "195";
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct { u64 above; char comm[16]; u64 between; char text[16]; u64 below; long number; } s;
	volatile u64 *above = &s.above, *between = &s.between, *below = &s.below;
	*above = ctx->major; *between = ctx->minor; *below = ctx->access_type >> 16;
	bpf_get_current_comm(s.comm, sizeof s.comm);
	u64 data[2] = { ctx->major, ctx->minor };
	bpf_snprintf(s.text, sizeof s.text, format, data, sizeof data);
	bpf_strtol(digits, sizeof digits, 10, &s.number);
	s.number = 195;
	return *above == s.number && *between < 2 && *below != 1;
}
