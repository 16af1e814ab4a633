// A search that ends where a pointer has reached the end of a table.
// unknown: none
struct rule { u32 major, first, last; };
static const volatile struct rule rules[] = { { 195, 0, 3 }, { 226, 128, 135 }, { 195, 255, 255 } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	const volatile struct rule *rule = rules, *end = rules + 3;
	asm volatile("" : "+r"(end));
#pragma clang loop unroll(disable)
	for (int i = 0; i < 3; i++, rule++) {
		if (rule >= end) break;
		if (rule->major == ctx->major && rule->first <= ctx->minor && ctx->minor <= rule->last) return 1;
	}
	return 0;
}
