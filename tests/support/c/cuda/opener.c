/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * opener VERB[=VALUE]...: a program that opens the driver's library itself, when it
 * is told to, as Python and statically linked runtimes do.
 *
 *   open=FILE    dlopen, and the functions by dlsym
 *   launch=N     N launches                  thread=N    the same in a new thread
 *   stop         says "stopped", waits for a line
 *   sleep=MS
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*retain)(void **, int), (*set_current)(void *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *context;

static void open_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "opener: %s\n", dlerror());
		exit(2);
	}
	*(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	*(void **)&set_current = dlsym(library, "cuCtxSetCurrent");
	*(void **)&launch = dlsym(library, "cuLaunchKernel");
	retain(&context, 0);
}

static void *launches(void *times)
{
	set_current(context);
	for (long i = 0; i < (long)times; i++)
		launch((void *)8, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	return NULL;
}

int main(int count, char **words)
{
	for (int i = 1; i < count; i++) {
		char *value = strchr(words[i], '=');
		long number = value ? strtol(value + 1, NULL, 0) : 1;
		pthread_t thread;

		if (!strncmp(words[i], "open", 4)) {
			open_library(value + 1);
		} else if (!strncmp(words[i], "launch", 6)) {
			launches((void *)number);
		} else if (!strncmp(words[i], "thread", 6)) {
			pthread_create(&thread, NULL, launches, (void *)number);
			pthread_join(thread, NULL);
		} else if (!strncmp(words[i], "sleep", 5)) {
			usleep(number * 1000);
		} else if (!strcmp(words[i], "stop")) {
			puts("stopped");
			fflush(stdout);
			getchar();
		} else {
			fprintf(stderr, "opener: no verb %s\n", words[i]);
			return 2;
		}
	}
	return 0;
}
