// A name service module that knows one user and never answers about others, as
// a directory server behind a broken network.
#include <errno.h>
#include <nss.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

enum nss_status _nss_slow_getpwuid_r(uid_t uid, struct passwd *user, char *room, size_t size, int *error)
{
	if (uid != 4242)
		for (;;)
			pause();
	if (size < 16) {
		*error = ERANGE;
		return NSS_STATUS_TRYAGAIN;
	}
	strcpy(room, "alice");
	*user = (struct passwd){ room, room + 5, uid, uid, room + 5, room + 5, room + 5 };
	return NSS_STATUS_SUCCESS;
}
