/* A process that changes its environment often, or is many. It begins when a
 * byte comes on its standard input, and ends when that ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "CUDA_VISIBLE_DEVICES"

static int count;
static long gap;

/* Changes one variable `count` times, to values that nobody else gives it, with
 * at least `gap` microseconds between two calls. */
static void *changes(void *number) {
    struct timespec pause = {gap / 1000000, gap % 1000000 * 1000};
    char value[64];
    for (int i = 0; i < count; i++) {
        snprintf(value, sizeof(value), "%ld,%d", (long)number, i);
        setenv(NAME, value, 1);
        if (gap) nanosleep(&pause, NULL);
    }
    return NULL;
}

static void threads(long number) {
    pthread_t ids[16];
    for (long i = 0; i < number; i++) pthread_create(&ids[i], NULL, changes, (void *)i);
    for (long i = 0; i < number; i++) pthread_join(ids[i], NULL);
}

/* A child: for each byte it gets it changes the variable, and says whether it
 * has what it set. */
static void child(int in, int out) {
    char byte;
    while (read(in, &byte, 1) == 1) {
        char value[2] = {byte, 0};
        setenv(NAME, value, 1);
        byte = !strcmp(getenv(NAME), value);
        if (write(out, &byte, 1) != 1) break;
    }
    _exit(0);
}

/* Children that are there and wait. A byte `1` on standard input is for the one
 * in the middle, any other for all: their number that did it is printed. */
static void many(int number) {
    int(*to)[2] = calloc(number, sizeof(*to)), back[2];
    char byte, good;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    pipe(back);
    for (int i = 0; i < number; i++) {
        pipe(to[i]);
        if (fork() == 0) {
            for (int j = 0; j <= i; j++) close(to[j][1]);
            child(to[i][0], back[1]);
        }
        close(to[i][0]);
    }
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) == 1) {
        int first = byte == '1' ? number / 2 : 0, last = byte == '1' ? first + 1 : number, done = 0;
        for (int i = first; i < last; i++) write(to[i][1], &byte, 1);
        for (int i = first; i < last && read(back[0], &good, 1) == 1; i++) done += good;
        printf("%d\n", done);
        fflush(stdout);
    }
    for (int i = 0; i < number; i++) close(to[i][1]);
    while (wait(NULL) > 0) {}
}

int main(int words, char **word) {
    char byte;
    if (words == 3 && !strcmp(word[1], "many")) {
        many(atoi(word[2]));
        return 0;
    }
    if (words != 4) return 1;
    count = atoi(word[2]);
    gap = atol(word[3]);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    read(0, &byte, 1);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    threads(atol(word[1]));
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.6f\n", end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9);
    fflush(stdout);
    while (read(0, &byte, 1) == 1) {}
    return 0;
}
