// Memory that user space maps and writes at any time (.data, .bss): a counter beside the policy.
// unknown: none
u32 first = 195, second = 226;
u64 hits, denials;

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	__sync_fetch_and_add(&hits, 1);
	if (ctx->major == first || ctx->major == second)
		return 1;
	denials++;
	return 0;
}
