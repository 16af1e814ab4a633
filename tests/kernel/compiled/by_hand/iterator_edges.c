// Iterators over nothing, backwards and over negative numbers.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	struct bpf_iter_num it; int *v, sum = 0;
	bpf_iter_num_new(&it, -3, (int)(ctx->minor & 7) - 4);
	while ((v = bpf_iter_num_next(&it))) { sum += *v; if (sum < -5) break; }
	bpf_iter_num_destroy(&it);
	bpf_iter_num_new(&it, 5, 2);
	while ((v = bpf_iter_num_next(&it))) sum = 100;
	bpf_iter_num_destroy(&it);
	return sum == 0 || sum == -3;
}
