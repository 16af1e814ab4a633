/* What a driver's library has for those who watch it, with the first bytes of
 * the real one: cmpl $imm,state(%rip) (ten bytes), je, jmp *slot(%rip). */
static unsigned state __attribute__((used));

int real_init(unsigned flags) {
    return (int)flags;
}

static int (*slot)(unsigned) __attribute__((used)) = real_init;

__asm__(".text\n"
        ".globl cuInit\n"
        ".type cuInit, @function\n"
        "cuInit:\n"
        "	cmpl $0x5aab7818, state(%rip)\n"
        "	je 1f\n"
        "	jmp *slot(%rip)\n"
        "1:	mov $1, %eax\n"
        "	ret\n"
        ".size cuInit, . - cuInit\n");
