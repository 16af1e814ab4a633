// A search with bpf_loop that ends early and writes to its context through pointers.
// unknown: none
struct arg { u32 major, minor; int found; u32 *where; };
static const u32 majors[6] = { 1, 8, 195, 226, 508, 7 };
static long look(u32 i, struct arg *a)
{
	if (i < 6 && majors[i] == a->major) { a->found = i + 1; *a->where = i; return 1; }
	return 0;
}
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 where = 100;
	struct arg a = { ctx->major, ctx->minor, 0, &where };
	long n = bpf_loop(6, look, &a, 0);
	return a.found == 3 ? where == 2 && n == 3 && a.minor < 3 : n == 6;
}
