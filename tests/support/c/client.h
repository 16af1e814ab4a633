/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the clients of the stand-ins have in common:
 *
 *   client [-w] [-e] [-u UID] [-t THREADS] VERB[:NUMBER]...
 *
 * does what it is told, in each thread. -w waits for a line on stdin first, -u makes it this
 * user's, -e ends the main thread: another one does all, and ends the process. A client
 * defines `obey`; verbs that call no driver are here: sleep:MS, stop (says "stopped" and
 * waits for a line), fork (the child leaves at once).
 */
#pragma once

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;

/* Does one verb. `stream` is the thread's. */
static void obey(const char *verb, u64 n, u64 *stream);

static char **verbs;
static int verb_count;
static void on_host(void *x) { (void)x; }

#define IS(word) (!strncmp(verb, word, strcspn(verb, ":")) && strlen(word) == strcspn(verb, ":"))
#define TIMES for (u64 i = 0; i < n; i++)

static void obey_any(const char *verb, u64 n, u64 *stream)
{
	if (IS("sleep")) usleep(n * 1000);
	else if (IS("stop")) { puts("stopped"); fflush(stdout); getchar(); }
	else if (IS("fork")) { if (fork() == 0) _exit(0); wait(NULL); }
	else obey(verb, n, stream);
}

static void *thread(void *x)
{
	u64 stream = 0;

	(void)x;
	for (int i = 0; i < verb_count; i++) {
		char *colon = strchr(verbs[i], ':');
		obey_any(verbs[i], colon ? strtoul(colon + 1, NULL, 0) : 1, &stream);
	}
	return NULL;
}

static void *alone(void *x)
{
	thread(x);
	exit(0);
}

int main(int count, char **words)
{
	int threads = 1, ends = 0, option;
	pthread_t all[64];

	while ((option = getopt(count, words, "+wet:u:")) != -1) {
		if (option == 'w')
			getchar();
		else if (option == 'e')
			ends = 1;
		else if (option == 'u') {
			if (setresuid(atoi(optarg), atoi(optarg), atoi(optarg)))
				return 2;
		} else
			threads = atoi(optarg);
	}
	verbs = words + optind;
	verb_count = count - optind;
	if (ends) {
		pthread_create(&all[0], NULL, alone, NULL);
		pthread_exit(NULL);
	}
	for (int i = 1; i < threads; i++)
		pthread_create(&all[i], NULL, thread, NULL);
	thread(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
