/* A process that does nothing. */
#include <unistd.h>

int main(void) {
    sleep(60);
    return 0;
}
