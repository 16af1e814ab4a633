// Assembly: several ends, a jump backwards to a shared one, the result of an earlier call kept in r0.
// unknown: none
__attribute__((naked)) SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	asm volatile("r2 = *(u32 *)(r1 + 4); r3 = *(u32 *)(r1 + 8); r4 = *(u8 *)(r1 + 2); goto 12f; 11: r0 = 1; exit; 13: r0 = 0; exit; 12: if w2 == 195 goto 14f; if r4 & 4 goto 13b; if w2 s< 9 goto 11b; r0 = r3; r0 >>= 7; w0 &= 1; exit; 14: r0 = 3; r0 -= r3; if r0 s<= 0 goto 13b; r0 s>>= 63; r0 += 1; exit" ::: "r0", "r1", "r2", "r3", "r4");
}
