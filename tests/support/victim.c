/* A process that changes its environment in the way that its first argument
 * names, says "ready" and waits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME "CUDA_VISIBLE_DEVICES"
extern char **environ;
static char **start;

static void *ready(void *unused) {
    (void)unused;
    if (write(1, "ready\n", 6) == 6)
        for (;;) pause();
    return NULL;
}

/* Values of very different lengths: a mixture would be seen. */
static void *race(void *unused) {
    static char values[2][2000];
    (void)unused;
    memset(values[0], 'a', 40);
    memset(values[1], 'b', 1999);
    for (unsigned i = 0;; i++) setenv(NAME, values[i & 1], 1);
}

static void *swap_race(void *unused) {
    static char *arrays[2][3] = {{"A=1", NAME "=aaaa", NULL}, {NAME "=bbbb", "B=1", NULL}};
    (void)unused;
    for (unsigned i = 0;; i++) *(char **volatile *)&environ = arrays[i & 1];
}

static void thread(void *(*body)(void *)) {
    pthread_t id;
    pthread_create(&id, NULL, body, NULL);
}

static void many(size_t count) {
    char **array = calloc(count + 1, sizeof *array), *text = malloc(count * 12), *at = text;
    for (size_t i = 0; i < count; i++, at += strlen(at) + 1) {
        array[i] = at;
        sprintf(at, "V%zu=1", i);
    }
    array[10] = NAME "=first";
    array[count - 1] = NAME "=last";
    environ = array;
}

static void direct(void) {
    for (char **one = environ; *one; one++)
        if (!strncmp(*one, NAME "=", sizeof NAME)) *one = NAME "=3";
}

static void huge(void) {
    char *value = malloc((2 << 20) + 1);
    memset(value, '7', 2 << 20);
    value[2 << 20] = 0;
    setenv(NAME, value, 1);
}

/* What setproctitle does. */
static void title(char **argv) {
    char *end = start[0];
    for (char **one = start; *one; one++) end = *one + strlen(*one);
    memset(argv[0], 0, end - argv[0]);
    memset(argv[0], 't', start[0] - argv[0] + 5);
}

static void devices(void) {
    for (int i = 0; i < 3; i++) open("/dev/null", O_RDONLY);
    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open("/dev/zero", O_RDONLY), 0);
    close(open("/dev/full", O_RDONLY));
    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Points into pages that are not there, and at an array without end. */
static void broken(int endless) {
    const size_t size = sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static char *array[] = {(char *)16, NAME "=1", NULL, NULL};
    munmap(page + size, size);
    if (endless) {
        char **last = (char **)(page + size) - 2;
        last[0] = NAME "=1", last[1] = "A=1";
        environ = last;
    } else {
        array[2] = memcpy(page + size - 23, NAME "=12", 23);
        environ = array;
    }
}

int main(int argc, char **argv) {
    static char *mine[] = {"A=1", NAME "=4", "novalue", "", NAME "=5", "SECRET=x", NULL};
    static char put[] = NAME "=2";
    const char *mode = argc > 1 ? argv[1] : "";
    start = environ;
    if (!strcmp(mode, "setenv")) setenv(NAME, "1", 1);
    if (!strcmp(mode, "putenv")) putenv(put);
    if (!strcmp(mode, "unsetenv")) unsetenv(NAME);
    if (!strcmp(mode, "clearenv")) clearenv();
    if (!strcmp(mode, "direct")) direct();
    if (!strcmp(mode, "swap")) environ = mine;
    if (!strcmp(mode, "null")) environ = NULL;
    if (!strcmp(mode, "wild")) environ = (char **)16;
    if (!strcmp(mode, "huge")) huge();
    if (!strcmp(mode, "bytes")) setenv(NAME, "\xff\x1b", 1);
    if (!strcmp(mode, "million")) many(1000000);
    if (!strcmp(mode, "toomany")) many(1200000);
    if (!strcmp(mode, "race")) thread(race);
    if (!strcmp(mode, "swaprace")) thread(swap_race);
    if (!strcmp(mode, "title")) title(argv);
    if (!strcmp(mode, "devices")) devices();
    if (!strcmp(mode, "broken")) broken(0);
    if (!strcmp(mode, "endless")) broken(1);
    if (!strcmp(mode, "thread")) {
        setenv(NAME, "1", 1);
        open("/dev/null", O_RDONLY);
        thread(ready);
        pthread_exit(NULL);
    }
    if (!strcmp(mode, "exec") && usleep(3000) == 0) execl("/proc/self/exe", argv[0], "exec", NULL);
    ready(NULL);
    return 0;
}

#ifdef EARLY
#include <sys/syscall.h>
/* Where the program begins, in place of what sets up the C library. The page of `environ`
 * is there, as it soon is in every program. */
extern char *program_invocation_name;
void early(void) {
    *(char **volatile *)&environ = NULL;
    *(char *volatile *)&program_invocation_name = program_invocation_name;
    if (syscall(SYS_write, 1, "ready\n", 6) == 6)
        for (;;) syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
}
#endif
