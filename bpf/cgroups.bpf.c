/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The device programs of every cgroup: one read instead of a system call for
 * each. Needs Linux 6.1 (iter/cgroup) with BTF.
 *
 * Records go to a ring and none to the reader, for the kernel does not go on
 * with a walk over cgroups whose output did not fit into one read. The kernel
 * holds cgroup_mutex all the while: records are of one moment, and should be
 * short.
 */
#include "cgroups_kernel.h"
#include "cgroups.h"

struct bpf_iter__cgroup {
	struct bpf_iter_meta *meta;
	struct cgroup *cgroup;
};

/* User space states the size before it loads the object. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} lists_ring SEC(".maps");

/* One record: too large for the stack. Walks exclude each other. */
struct scratch {
	struct cgroup_record record;
	__u32 ids[CGROUP_OWN + CGROUP_EFFECTIVE];
	__u32 used;
	__u32 number;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

/* Element `index` of an array inside a cgroup. */
#define read_element(into, cgroup, array, index)                                         \
	bpf_probe_read_kernel(into, sizeof(*(into)),                                     \
			      (const char *)(cgroup) + field_offset((cgroup)->array) + \
				      (index) * sizeof(*(into)))

/* 0 for none. The program that fills holes in lists has no aux and so no id. */
static __always_inline __u32 id_of(struct bpf_prog *prog)
{
	struct bpf_prog_aux *aux = prog ? read_field(prog, aux) : 0;

	return aux ? read_field(aux, id) : 0;
}

/* One of the two is set. */
static __always_inline struct bpf_prog *program_of(struct bpf_prog_list *entry)
{
	struct bpf_prog *prog = read_field(entry, prog);
	struct bpf_cgroup_link *link = prog ? 0 : read_field(entry, link);

	return link ? read_field(link, link.prog) : prog;
}

/* Whether it has an id. Counted in memory: the verifier would follow every count
 * that a register can have through every turn of a loop. */
static __always_inline int add(struct scratch *to, struct bpf_prog *prog)
{
	__u32 id = id_of(prog), used = *(volatile __u32 *)&to->used;

	if (!id || used >= CGROUP_OWN + CGROUP_EFFECTIVE)
		return 0;
	to->ids[used] = id;
	*(volatile __u32 *)&to->used = used + 1;
	return 1;
}

static __always_inline void own(struct scratch *to, struct cgroup *cgroup)
{
	struct hlist_node *node = 0;

	read_element(&node, cgroup, bpf.progs, device_lists());
	for (int i = 0; i < CGROUP_OWN && node; i++) {
		struct bpf_prog_list *none = 0;

		/* There are no holes here: what has no id was not read. */
		if (!add(to, program_of((void *)node - field_offset(none->node))))
			to->record.flags |= CGROUP_OWN_CUT;
		node = read_field(node, next);
	}
	if (node)
		to->record.flags |= CGROUP_OWN_CUT;
	to->record.own = to->used;
}

static __always_inline void effective(struct scratch *to, struct cgroup *cgroup)
{
	struct bpf_prog_array *array = 0;

	read_element(&array, cgroup, bpf.effective, device_lists());
	if (!array)
		return;
	struct bpf_prog_array_item *item = (void *)array + field_offset(array->items);
	struct bpf_prog *prog = read_field(item, prog);

	for (int i = 0; i < CGROUP_EFFECTIVE && prog; i++) {
		add(to, prog);
		item = (void *)item + type_size(struct bpf_prog_array_item);
		prog = read_field(item, prog);
	}
	if (prog)
		to->record.flags |= CGROUP_EFFECTIVE_CUT;
	to->record.effective = to->used - to->record.own;
}

static __always_inline void describe(struct scratch *to, struct cgroup *cgroup)
{
	to->record.id = cgroup->kn->id;
	to->record.children = cgroup->kn->dir.subdirs;
	__u8 attach_flags = 0;

	read_element(&attach_flags, cgroup, bpf.flags, device_lists());
	to->record.attach_flags = attach_flags;
	if (field_exists(cgroup->bpf.revisions))
		read_element(&to->record.revision, cgroup, bpf.revisions, device_lists());
	own(to, cgroup);
	effective(to, cgroup);
}

SEC("iter/cgroup") int lists(struct bpf_iter__cgroup *ctx)
{
	struct cgroup *cgroup = ctx->cgroup;
	__u32 zero = 0;
	struct scratch *to = bpf_map_lookup_elem(&scratch, &zero);

	if (!to)
		return 1;
	__builtin_memset(&to->record, 0, sizeof(to->record));
	to->used = 0;
	to->record.number = to->number++;
	if (cgroup) {
		describe(to, cgroup);
	} else {
		to->record.flags = CGROUP_END;
		to->number = 0;
	}
	__u64 used = to->used;

	if (used > CGROUP_OWN + CGROUP_EFFECTIVE)
		return 1;
	/* 1 ends the walk: what is missing shows in the numbers. */
	return !!bpf_ringbuf_output(&lists_ring, to, sizeof(to->record) + used * sizeof(to->ids[0]),
				     BPF_RB_NO_WAKEUP);
}

SEC("license") char LICENSE[] = "Dual MIT/GPL";
