// The argument is read byte by byte, and over a pointer that moves.
// unknown: none
SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u8 *bytes = (void *)ctx; u16 *halves = (void *)ctx;
	u8 kind = *(volatile u8 *)bytes; u8 access = *(volatile u8 *)(bytes + 2); u16 type = *(volatile u16 *)halves, request = *(volatile u16 *)(halves + 1);
	if (kind != type || access != request) return 0;
	return *(volatile u8 *)(bytes + 1) == 0 && (kind == 2 || (request & 4));
}
