// A text of the numbers is compared with a constant one.
// unknown: none
static const char want[8] = "c195:2";
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	char text[8] = {};
	u32 major = ctx->major, minor = ctx->minor;
	if (major > 999 || minor > 9) return 0;
	text[0] = (ctx->access_type & 0xffff) == 2 ? 'c' : 'b';
	text[1] = '0' + major / 100; text[2] = '0' + major / 10 % 10; text[3] = '0' + major % 10;
	text[4] = ':'; text[5] = '0' + minor;
	for (int i = 0; i < 6; i++) if (text[i] != want[i]) return 0;
	return 1;
}
