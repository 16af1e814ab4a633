/* A library that makes the process which loads it look as one under libvgpu.so:
 * it maps a region, keeps its descriptor, writes its own pid into an entry,
 * clears the umask and catches SIGUSR1 and SIGUSR2. It intercepts nothing.
 *
 *   HOOKED_REGION=FILE   the region; unset: the library is loaded and no more
 *   HOOKED_ENTRY=N       entry of layout 1.2 to take; unset: none
 *   HOOKED_HOST_PID=P    default: getpid(); 0: not found
 *   HOOKED_SWITCH=N      the SM switch that it has noted; default 1
 *   HOOKED_FOUND=N       whether it has found its pid on the node; default 1
 *   HOOKED_READY         print "ready" once all is done
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 2008952
#define ENTRIES 1856
#define STRIDE 1960
#define STATUS 1928

/* As HAMi-core's C files name them. */
static volatile int cached_util_switch, cached_sm_limit[16];
volatile int env_utilization_switch __attribute__((visibility("hidden")));
volatile int pidfound __attribute__((visibility("hidden")));

static int number(const char *name, int other) {
    const char *text = getenv(name);
    return text ? atoi(text) : other;
}

static void caught(int signal) { (void)signal; }

static void register_process(char *region) {
    const char *entry = getenv("HOOKED_ENTRY"), *host = getenv("HOOKED_HOST_PID");
    if (!entry)
        return;
    char *own = region + ENTRIES + (long)atoi(entry) * STRIDE;
    int32_t *pids = (int32_t *)own;
    pids[0] = getpid();
    pids[1] = host ? atoi(host) : getpid();
    *(int32_t *)(own + STATUS) = 1;
    cached_util_switch = number("HOOKED_SWITCH", 1);
    for (int device = 0; device < 16; device++)
        cached_sm_limit[device] = number("CUDA_DEVICE_SM_LIMIT", 100);
    env_utilization_switch = 0;
    pidfound = number("HOOKED_FOUND", 1);
}

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("HOOKED_REGION");
    if (file) {
        int fd = open(file, O_RDWR);
        struct stat stat;
        if (fd < 0 || fstat(fd, &stat)) {
            perror(file);
            _exit(1);
        }
        char *region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (region == MAP_FAILED) {
            perror("mmap");
            _exit(1);
        }
        umask(0);
        signal(SIGUSR1, caught);
        signal(SIGUSR2, caught);
        if (stat.st_size >= SIZE)
            register_process(region);
    }
    if (getenv("HOOKED_READY")) {
        /* The next program must not say it again. */
        unsetenv("HOOKED_READY");
        puts("ready");
        fflush(stdout);
    }
}
