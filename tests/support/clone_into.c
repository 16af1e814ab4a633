/* Begins a process in another cgroup (clone3 with CLONE_INTO_CGROUP): argument 1
 * is its directory. The child sleeps for as many seconds as argument 2 says; the
 * parent prints its pid and waits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = open(argv[1], O_RDONLY | O_DIRECTORY),
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (child < 0) {
		perror("clone3");
		return 1;
	}
	if (child == 0) {
		sleep(atoi(argv[2]));
		_exit(0);
	}
	printf("%ld\n", child);
	fflush(stdout);
	return waitpid(child, NULL, 0) < 0;
}
