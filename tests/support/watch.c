/* A process that changes its environment in the way that its first argument
 * names, and ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "CUDA_VISIBLE_DEVICES"

static char text[8192];

static char *filled(size_t length) {
    memset(text, 'x', length);
    text[length] = 0;
    return text;
}

/* Without a call of the C library. */
static void store(void) {
    for (char **entry = environ; *entry; entry++)
        if (!strncmp(*entry, NAME "=", strlen(NAME "="))) *entry = NAME "=7";
    sleep(3);
}

/* The same once the main thread has ended. */
static void *store_alone(void *main_thread) {
    pthread_join((pthread_t)main_thread, NULL);
    store();
    exit(0);
}

static int calls = 20000;

static void *hammer(void *unused) {
    (void)unused;
    for (int i = 0; i < calls; i++) setenv(NAME, i & 1 ? "1" : "2", 1);
    return NULL;
}

static void threads(void) {
    pthread_t ids[4];
    for (int i = 0; i < 4; i++) pthread_create(&ids[i], NULL, hammer, NULL);
    for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
}

#ifndef STATIC
static void driver(const char *path, const char *function) {
    void *library = dlopen(path, RTLD_NOW);
    setenv(NAME, "1", 1);
    /* Time to be seen with the library. */
    sleep(3);
    int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, function) : NULL;
    setenv(NAME, "2", 1);
    if (init) init(0);
    setenv(NAME, "3", 1);
    sleep(1);
}
#endif

static void *again(void *arguments) {
    char **words = arguments, *environment[] = {NAME "=0", NULL};
    execle("/proc/self/exe", words[0], words[2] ? words[2] : "unset", NULL, environment);
    return NULL;
}

int main(int count, char **arguments) {
    /* To be followed before anything else is done. */
    if (getenv("STOPPED")) raise(SIGSTOP);
    unsetenv("STOPPED");
    /* The first call of all, with strings whose pages nobody touched. */
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    /* Time to read the environment of the exec. */
    usleep(200000);
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "wait")) {
        sleep(60);
    } else if (!strcmp(mode, "putenv")) {
        putenv(NAME "=4,5");
        putenv("ZE_AFFINITY_MASK");
        putenv(NAME);
    } else if (!strcmp(mode, "unset")) {
        unsetenv(NAME);
        unsetenv("HIP_VISIBLE_DEVICES");
    } else if (!strcmp(mode, "repeat")) {
        /* Until somebody has seen it, or two minutes. */
        for (int i = 0; i < 1200; i++) {
            setenv(NAME, i & 1 ? "1" : "2", 1);
            usleep(100000);
        }
    } else if (!strcmp(mode, "repeat-fork")) {
        /* In children that execute nothing. */
        for (int i = 0; i < 60; i++) {
            if (fork() == 0) {
                for (int j = 0; j < 10; j++) {
                    setenv(NAME, j & 1 ? "1" : "2", 1);
                    usleep(100000);
                }
                _exit(0);
            }
            wait(NULL);
        }
    } else if (!strcmp(mode, "store")) {
        store();
    } else if (!strcmp(mode, "store-alone")) {
        pthread_t id;
        pthread_create(&id, NULL, store_alone, (void *)pthread_self());
        pthread_exit(NULL);
    } else if (!strcmp(mode, "clear")) {
        clearenv();
    } else if (!strcmp(mode, "keep")) {
        setenv(NAME, "9", 0);
        setenv("HIP_VISIBLE_DEVICES", "2", 0);
    } else if (!strcmp(mode, "fail")) {
        setenv("", "9", 1);
        setenv(NAME "=", "9", 1);
        unsetenv("A=B");
    } else if (!strcmp(mode, "names")) {
        setenv(NAME "_FOO", "9", 1);
        setenv("CUDA_VISIBLE_DEVICE", "9", 1);
        setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
        setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGES_WITH_A_TAIL_THAT_IS_LONG", "9", 1);
        putenv(NAME "_FOO=1");
    } else if (!strcmp(mode, "long")) {
        setenv(NAME, filled(327), 1);
        setenv(NAME, filled(4096), 1);
        setenv(NAME, filled(4097), 1);
        setenv(NAME, filled(5120), 1);
        setenv(NAME, "", 1);
    } else if (!strcmp(mode, "fork")) {
        if (fork() == 0) {
            setenv(NAME, "6", 1);
            _exit(0);
        }
        wait(NULL);
    } else if (!strcmp(mode, "exec")) {
        again(arguments);
    } else if (!strcmp(mode, "exec-thread")) {
        pthread_t id;
        pthread_create(&id, NULL, again, arguments);
        pthread_join(id, NULL);
    } else if (!strcmp(mode, "threads")) {
        if (count > 2) calls = atoi(arguments[2]);
        threads();
        setenv(NAME, "last", 1);
    }
#ifndef STATIC
    else if (!strcmp(mode, "driver") && count > 3)
        driver(arguments[2], arguments[3]);
#endif
    return 0;
}
