// Eight functions deep, each writing to the stack of the one that called it.
// unknown: none
#define LEVEL(name, next) \
	static NOINLINE u32 name(u32 number, u32 *above) { volatile u32 own[10]; own[number & 7] = number; *above += own[number & 7] & 1; u32 below = 0; u32 sum = next(number >> 1, &below); return sum + below; }
static NOINLINE u32 last(u32 number, u32 *above) { *above = number & 1; return number > 3; }
LEVEL(six, last) LEVEL(five, six) LEVEL(four, five) LEVEL(three, four) LEVEL(two, three) LEVEL(one, two)

SEC("cgroup/dev") int policy(struct bpf_cgroup_dev_ctx *ctx)
{
	u32 own = 0;
	u32 sum = one(ctx->minor & 0xff, &own);
	return sum + own > 3;
}
