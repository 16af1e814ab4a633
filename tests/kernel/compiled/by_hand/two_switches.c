// Large switches over minors and drivers with values from a table.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 r = 0;
	switch (ctx->minor) { case 0: r = 5; break; case 1: r = 17; break; case 2: r = 3; break; case 3: r = 90; break; case 4: r = 1; break; case 5: r = 64; break; case 6: r = 12; break; case 7: r = 250; break; case 8: r = 33; break; case 128: r = 8; break; case 255: r = 2; break; default: r = ctx->minor >> 3; }
	switch (ctx->major) { case 195: return (r & 1) == 1; case 226: return r > 7; case 1: return r == 90; case 8: return (r ^ 3) == 0; case 7: return r >= 17 && r < 91; case 508: return (r & 32) == 32; default: return 0; }
}
