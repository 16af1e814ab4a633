// Names are compared by a helper and by functions of the kernel, for one driver.
// unknown: major 7
static long (*bpf_strncmp)(const char *text, u32 size, const char *constant) = (void *)182;
extern int bpf_strcmp(const char *a, const char *b) __attribute__((section(".ksyms")));
extern int bpf_strlen(const char *text) __attribute__((section(".ksyms")));
const char constant[8] = "slurmd";
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	char name[16] = { 0 };
	if (ctx->major != 7)
		return ctx->major == 195 && ctx->minor < 3;
	bpf_get_current_comm(name, sizeof(name));
	return !bpf_strncmp(name, sizeof(name), constant) || bpf_strlen(constant) == 6;
}
