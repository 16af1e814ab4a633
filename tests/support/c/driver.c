/* A process that does what its arguments say, one after the other, and ends:
 *   set NAME VALUE   change its environment
 *   load LIBRARY     open a driver's library
 *   init FUNCTION    call its function that initialises it
 *   seen             give those who watch time to look */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *library = NULL;
	char **arg = argv + 1;

	(void)argc;
	while (*arg) {
		const char *action = *arg++;

		if (strcmp(action, "seen") == 0) {
			sleep(3);
		} else if (!*arg) {
			return 1;
		} else if (strcmp(action, "set") == 0) {
			const char *name = *arg++;

			if (!*arg || setenv(name, *arg++, 1) != 0)
				return 1;
		} else if (strcmp(action, "load") == 0) {
			library = dlopen(*arg++, RTLD_NOW);
			if (!library)
				return 2;
		} else if (strcmp(action, "init") == 0) {
			int (*init)(unsigned) = NULL;

			*(void **)&init = library ? dlsym(library, *arg) : NULL;
			arg++;
			if (!init || init(0) != 0)
				return 3;
		} else {
			return 4;
		}
	}
	return 0;
}
