/* The four functions of a C library that change the environment, on the
 * environ array of the real one. Compiled with -fcf-protection each of them
 * begins with endbr64, as in the C libraries of Ubuntu and Fedora. */
#include <stdlib.h>
#include <string.h>

extern char **environ;

static size_t named(const char *name) {
    size_t length = strcspn(name, "=");
    return length;
}

static char **find(const char *name, size_t length) {
    for (char **at = environ; at && *at; at++)
        if (!strncmp(*at, name, length) && (*at)[length] == '=') return at;
    return NULL;
}

static int put(char *text, size_t length) {
    char **at = find(text, length);
    if (at) {
        *at = text;
        return 0;
    }
    size_t count = 0;
    while (environ && environ[count]) count++;
    char **larger = malloc((count + 2) * sizeof(*larger));
    if (!larger) return -1;
    if (count) memcpy(larger, environ, count * sizeof(*larger));
    larger[count] = text;
    larger[count + 1] = NULL;
    environ = larger;
    return 0;
}

int setenv(const char *name, const char *value, int overwrite) {
    size_t length = strlen(name);
    if (!length || named(name) != length) return -1;
    if (!overwrite && find(name, length)) return 0;
    char *text = malloc(length + strlen(value) + 2);
    if (!text) return -1;
    memcpy(text, name, length);
    text[length] = '=';
    strcpy(text + length + 1, value);
    return put(text, length);
}

int unsetenv(const char *name) {
    size_t length = strlen(name);
    if (!length || named(name) != length) return -1;
    for (char **at; (at = find(name, length));)
        do at[0] = at[1];
        while (*at++);
    return 0;
}

int putenv(char *text) {
    size_t length = named(text);
    return text[length] ? put(text, length) : unsetenv(text);
}

int clearenv(void) {
    environ = NULL;
    return 0;
}
