// A helper fills a place on the stack on one path; on the others it holds what the program wrote.
// unknown: major 7
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	char name[16] = { 195, 0, 3 };
	if (ctx->major == 7)
		bpf_get_current_comm(name, sizeof(name));
	else if (ctx->major == 226)
		name[0] = 226;
	asm volatile("" ::: "memory");
	return (u8)name[0] == (u8)ctx->major && ctx->minor < (u8)name[2] || ctx->major == 7 && name[1] & 1;
}
