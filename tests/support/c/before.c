/* A library between programs and the driver, as HAMi's libvgpu.so: each call takes a
 * while before it goes on to the driver's function of the same name. An allocation that
 * is over a limit does not go on.
 *
 *   BEFORE_NS=N   how long it takes; default 0
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long u64;
#define LIMIT (1ul << 40)
#define OUT_OF_MEMORY 2

static u64 now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ul + time.tv_nsec;
}

static u64 takes;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("BEFORE_NS");
    takes = text ? strtoul(text, NULL, 10) : 0;
}

static void spend(void) {
    for (u64 until = takes ? now() + takes : 0; takes && now() < until;)
        ;
}

int cuLaunchKernel(void *f, int gx, int gy, int gz, int bx, int by, int bz, int shared, u64 s, void **p,
                   void **x) {
    static int (*driver)(void *, int, int, int, int, int, int, int, u64, void **, void **);
    if (!driver)
        driver = dlsym(RTLD_NEXT, "cuLaunchKernel");
    spend();
    return driver(f, gx, gy, gz, bx, by, bz, shared, s, p, x);
}

int cuMemAlloc_v2(u64 *out, u64 size) {
    static int (*driver)(u64 *, u64);
    if (!driver)
        driver = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    spend();
    return size > LIMIT ? OUT_OF_MEMORY : driver(out, size);
}

/* Nothing is done here, and the compiler makes a jump of it. */
int cuMemFree_v2(u64 address) {
    static int (*driver)(u64);
    if (!driver)
        driver = dlsym(RTLD_NEXT, "cuMemFree_v2");
    return driver(address);
}
