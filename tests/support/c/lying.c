/* A library whose functions are called like the C library's, and one whose code
 * begins at the same place and has none of them. */
#ifdef VICTIM
asm(".text\n.fill 8192, 1, 0x90\n");
#else
int setenv(const char *name, const char *value, int overwrite) { return !name + !value + overwrite; }
int putenv(char *text) { return !text; }
#endif
