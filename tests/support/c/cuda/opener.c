/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * opener VERB[=VALUE]...: a program that opens the driver's library itself, when it
 * is told to, as Python and statically linked runtimes do.
 *
 *   open=FILE    dlopen, and the functions by dlsym; compiled with -DLOOKUP in the
 *                library's table of symbols, with -DBY_ADDRESS by cuGetProcAddress
 *   launch=N     N launches                  thread=N    the same in a new thread
 *   stop         says "stopped", waits for a line
 *   sleep=MS
 *
 * At its end it closes the library: a static program does not run what the library does
 * at exit.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*retain)(void **, int), (*set_current)(void *);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *context, *library;

#ifdef LOOKUP
#include "lookup.c"
static void *find(const char *name, int version) { (void)version; return look_up("libcuda.so", name); }
#elif defined(BY_ADDRESS)
/* The version is that of the function, in the words of the driver. */
static void *find(const char *name, int version)
{
	int (*by_address)(const char *, void **, int, unsigned long, int *);
	void *found = NULL;

	*(void **)&by_address = dlsym(library, "cuGetProcAddress_v2");
	by_address(name, &found, version, 0, NULL);
	return found;
}
#else
static void *find(const char *name, int version) { (void)version; return dlsym(library, name); }
#endif

static void open_library(const char *path)
{
	library = dlopen(path, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "opener: %s\n", dlerror());
		exit(2);
	}
	*(void **)&retain = find("cuDevicePrimaryCtxRetain", 7000);
	*(void **)&set_current = find("cuCtxSetCurrent", 4000);
	*(void **)&launch = find("cuLaunchKernel", 4000);
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
	if (library)
		dlclose(library);
	return 0;
}
