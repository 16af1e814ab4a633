/* Runs a program as one of the many uids of a user's own user namespace, as `newuidmap`
 * gives them to whoever is in /etc/subuid. Run as root:
 *
 *   subuid USER UID PROGRAM WORD...
 *
 * USER makes the namespace; inside, UID (1 to 60000) is 200000 + UID of the host.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void map(pid_t of, const char *file, unsigned user)
{
	char path[64], text[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", of, file);
	snprintf(text, sizeof(text), "0 %u 1\n1 200001 60000\n", user);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

int main(int words, char **word)
{
	unsigned user, uid;
	int made[2], mapped[2], status;
	pid_t own = getpid(), root;
	char byte = 0;

	if (words < 4)
		return 2;
	user = atoi(word[1]);
	uid = atoi(word[2]);
	if (pipe(made) || pipe(mapped))
		fail("pipe");
	root = fork();
	if (root == 0) {
		close(mapped[0]);
		if (read(made[0], &byte, 1) != 1)
			_exit(1);
		map(own, "uid_map", user);
		map(own, "gid_map", user);
		_exit(write(mapped[1], &byte, 1) != 1);
	}
	close(mapped[1]);
	if (setresgid(user, user, user) || setresuid(user, user, user))
		fail("setresuid");
	/* The files of /proc that map uids belong to root otherwise. */
	prctl(PR_SET_DUMPABLE, 1);
	if (unshare(CLONE_NEWUSER))
		fail("unshare");
	if (write(made[1], &byte, 1) != 1 || read(mapped[0], &byte, 1) != 1)
		fail("the maps of uids");
	waitpid(root, &status, 0);
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		fail("setresuid to a uid of the namespace");
	close(made[0]);
	close(made[1]);
	close(mapped[0]);
	execv(word[3], word + 3);
	fail(word[3]);
}
