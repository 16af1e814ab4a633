/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library between a program and the driver, as libvgpu.so of HAMi-core is: it has
 * the names of the driver's functions, refuses every fourth launch and every
 * allocation above a limit, and calls the driver for the rest.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define LIMIT (1ul << 20)
#define OUT_OF_MEMORY 2

static int launches;

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *stream, void **parameters, void **extra)
{
	int (*real)() = (int (*)())dlsym(RTLD_NEXT, "cuLaunchKernel");

	if (__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) % 4 == 0)
		return OUT_OF_MEMORY;
	return real(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

int cuMemAlloc_v2(uint64_t *out, uint64_t size)
{
	int (*real)() = (int (*)())dlsym(RTLD_NEXT, "cuMemAlloc_v2");

	return size > LIMIT ? OUT_OF_MEMORY : real(out, size);
}
