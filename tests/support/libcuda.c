/* What a driver's library has for those who watch it. */
int cuInit(unsigned flags) {
    return (int)flags;
}
