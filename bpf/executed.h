/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The environment of a program that has just been executed, before its first
 * instruction: what the process does later, or that it ends, changes nothing
 * of it. Its strings were just written, so they are there to be read; one that
 * is not makes the environment one that was not told.
 */
#pragma once

#include "environ.h"

/* Bytes of an environment, variables that are told, and the root of how many
 * strings it has (or pieces of strings): preemption is off meanwhile. User space
 * reads larger ones. */
#define ENVIRONMENT_LIMIT (512 << 10)
#define TOLD 64
#define STRINGS 64
/* Bytes that are read of a string at a time. */
#define PIECE 4096

/* How far an environment was walked. */
struct walk {
	__u64 at;         /* the next string, or what is left of one */
	__u64 end;
	__u32 inside;     /* whether it is what is left of one */
	__u32 told;
	char text[PIECE]; /* too large for the stack */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk);
} walks SEC(".maps");

static __always_inline struct walk *own_walk(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&walks, &zero);
}

/* Tells the string that was read if it is a variable that is looked for. */
static __always_inline void consider(struct walk *walk)
{
	__u64 beginning = *(__u64 *)walk->text;
	struct call call = { .kind = EXEC_VARIABLE };
	struct name name;
	__u32 index, length;

	if (!bpf_map_lookup_elem(&beginnings, &beginning))
		return;
	__builtin_memcpy(&name, walk->text, sizeof(name));
	length = spelled(&name, NAME_SIZE, &index);
	if (!length || length >= NAME_SIZE)
		return;
	/* So that the bound is in the register that is used: the verifier of Linux 6.1 does
	 * not carry it over from the comparison. */
	asm volatile("%0 &= 63" : "+r"(length));
	if (walk->text[length] != '=')
		return;
	call.value = (const char *)walk->at + length + 1;
	call.flags = walk->told << NUMBER_SHIFT;
	walk->told++;
	/* One that is lost is missed by its number. */
	send(&call, index);
}

/* Goes on by a string or a piece of one; 0 at the end, or where that cannot be
 * done. A function of its own, as the next, which the verifier looks at once
 * and not for each turn of the loop (Linux 5.6). */
__attribute__((noinline)) int next_string(void)
{
	struct walk *walk = own_walk();
	long length;

	if (!walk || walk->at >= walk->end || walk->told >= TOLD)
		return 0;
	length = bpf_probe_read_user_str(walk->text, PIECE, (const void *)walk->at);
	if (length < 0)
		return 0;
	if (!walk->inside)
		consider(walk);
	walk->inside = length == PIECE;
	/* A piece has an end that is not the string's. Of a string that is
	 * empty older kernels do not count the end. */
	walk->at += length == PIECE ? PIECE - 1 : length ? length : 1;
	return 1;
}

__attribute__((noinline)) int next_strings(void)
{
	for (int string = 0; string < STRINGS; string++) {
		if (!next_string())
			return 0;
	}
	return 1;
}

/* Tells the variables, and says in flags whether these are all and how many. */
static __always_inline __u32 environment(struct mm_struct *mm)
{
	struct walk *walk = own_walk();

	if (!walk)
		return 0;
	walk->at = read_field(mm, env_start);
	walk->end = read_field(mm, env_end);
	walk->inside = walk->told = 0;
	if (!walk->end || walk->end - walk->at > ENVIRONMENT_LIMIT)
		return 0;
	for (int turn = 0; turn < STRINGS; turn++) {
		if (!next_strings())
			break;
	}
	if (walk->at != walk->end || walk->inside)
		return 0;
	return WHOLE | walk->told << NUMBER_SHIFT;
}
