/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A function of a loaded library by its name, without dlsym: in the library's own table
 * of symbols, as some runtimes and injected tools look it up.
 */
#include <elf.h>
#include <link.h>
#include <string.h>

struct wanted { const char *library, *name; void *found; };

static int in_library(struct dl_phdr_info *info, size_t size, void *x)
{
	struct wanted *wanted = x;
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const unsigned *hash = NULL;
	unsigned last = 0;

	(void)size;
	if (!strstr(info->dlpi_name, wanted->library))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB) symbols = (const void *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRTAB) strings = (const void *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_GNU_HASH) hash = (const void *)dynamic->d_un.d_ptr;
	}
	if (!symbols || !strings || !hash)
		return 0;
	/* buckets, first symbol, words of the filter; then the filter, buckets, chains. */
	const unsigned *buckets = hash + 4 + hash[2] * (sizeof(long) / 4), *chains = buckets + hash[0];

	for (unsigned i = 0; i < hash[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	while (last && !(chains[last - hash[1]] & 1))
		last++;
	for (unsigned i = hash[1]; i <= last; i++)
		if (!strcmp(strings + symbols[i].st_name, wanted->name)) {
			wanted->found = (void *)(info->dlpi_addr + symbols[i].st_value);
			return 1;
		}
	return 0;
}

void *look_up(const char *library, const char *name)
{
	struct wanted wanted = { library, name, NULL };

	dl_iterate_phdr(in_library, &wanted);
	return wanted.found;
}
