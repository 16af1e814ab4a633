/* Executes programs with environments that no shell would make.
 *
 *   exec main|thread PROGRAM ARGUMENT...   with the strings of its input, each
 *                                          with its end, from that thread
 *   exec each COUNT PROGRAM ARGUMENT...    one after the other, with a number
 *   exec overwrite                         its environment, first of all
 *   exec set                               a variable, first of all
 *   exec wait                              to be ended
 *   exec end */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char input[4 << 20];
static char *environment[1 << 17];
static char **program;

static void *execute(void *unused) {
    (void)unused;
    execve(program[0], program, environment);
    _exit(1);
}

static void given(void) {
    size_t size = fread(input, 1, sizeof input - 1, stdin);
    int count = 0;
    for (char *at = input; at < input + size; at += strlen(at) + 1) environment[count++] = at;
}

static void each(int count) {
    for (int number = 0; number < count; number++) {
        char variable[64], *variables[] = {variable, NULL};
        snprintf(variable, sizeof variable, "CUDA_VISIBLE_DEVICES=%d", number);
        pid_t pid = vfork();
        if (pid == 0) {
            execve(program[0], program, variables);
            _exit(1);
        }
        waitpid(pid, NULL, 0);
    }
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "end";
    if (!strcmp(mode, "overwrite")) {
        for (char **one = environ; *one; one++) memset(*one, 'x', strlen(*one));
    } else if (!strcmp(mode, "set")) {
        setenv("CUDA_VISIBLE_DEVICES", "8", 1);
    } else if (!strcmp(mode, "wait")) {
        pause();
    } else if (!strcmp(mode, "each")) {
        program = arguments + 3;
        each(atoi(arguments[2]));
    } else if (!strcmp(mode, "main")) {
        program = arguments + 2;
        given();
        execute(NULL);
    } else if (!strcmp(mode, "thread")) {
        pthread_t thread;
        program = arguments + 2;
        given();
        pthread_create(&thread, NULL, execute, NULL);
        pause();
    }
    return 0;
}
