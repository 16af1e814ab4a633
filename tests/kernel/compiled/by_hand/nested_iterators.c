// An iterator with an early end inside another one.
// unknown: none
static const u32 allowed[3][3] = { { 195, 0, 2 }, { 226, 128, 129 }, { 1, 3, 5 } };
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_num a, b;
	int *i, *j, ok = 0;
	bpf_iter_num_new(&a, 0, 3);
	while ((i = bpf_iter_num_next(&a))) {
		u32 row = *i;
		if (row > 2 || allowed[row][0] != ctx->major) continue;
		bpf_iter_num_new(&b, 1, 3);
		while ((j = bpf_iter_num_next(&b))) {
			u32 col = *j;
			if (col <= 2 && allowed[row][col] == ctx->minor) { ok = 1; break; }
		}
		bpf_iter_num_destroy(&b);
		break;
	}
	bpf_iter_num_destroy(&a);
	return ok;
}
