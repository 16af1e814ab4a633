//! What the decoder takes for granted of the verifier and the kernel.
//!
//! Every exact answer rests on these sentences. Each names its source in
//! Linux, the code here that relies on it, and the test that asks the kernel
//! (of `tests/kernel/assumptions` where no other file is named; "by hand" are
//! the C programs of `tests/kernel/compiled/by_hand`). A new kernel that breaks
//! one makes that test fail; a new shortcut in the decoder belongs into this
//! list first.
//!
//! **Which programs there are**
//!
//! 1. No program reads memory that it was not given, jumps out of its
//!    instructions or runs for ever: `do_check`, `kernel/bpf/verifier.c`. Files
//!    may hold other bytes, so `machine` ends such a path as unknown
//!    (`tests/offline/regressions.rs`, `jump_past_the_end`).
//! 2. The dump is what runs, but for `BPF_PROBE_MEM` loads, which it shows as
//!    plain ones, and for what a reader without rights is not shown:
//!    `bpf_insn_prepare_dump`, `kernel/bpf/syscall.c`. `bytecode::operation`;
//!    `tests/kernel/generated.rs`, `harness_hides_as_the_kernel_does`.
//! 3. A tail call keeps its number (12) in every dump: same function.
//!    `helpers::is_tail_call`; `lost::in_a_tail_call`.
//!
//! **What a program may write**
//!
//! 4. Only the maps in its own list, and the maps inside those, unless it goes
//!    on in another program: `bpf_prog::aux::used_maps`, filled by
//!    `resolve_pseudo_ldimm64`. `written`, `stores`; `alias::a_store_through_an_outer_map`,
//!    `alias::an_update_through_an_outer_map`.
//! 5. No map with `BPF_F_RDONLY_PROG`: `check_map_access_type`. Helpers that
//!    gpumap does not know are excepted (CVE-2024-49861). `written::handed`.
//! 6. A kernel function may end the program (`bpf_throw`), so that the path is
//!    lost, and what comes after it may write: `machine::lose`;
//!    `lost::after_a_kernel_function`, `lost::for_the_next_program`, where no
//!    function of the program handles it, what was thrown is returned
//!    (`Part::handles_exceptions`), by hand "exceptions", "exception_in_a_function";
//!    where one does, `exceptions::a_handler_writes`. No function that a helper calls
//!    may do so (`check_max_stack_depth_subprog`), so a helper that calls back
//!    returns; by hand "exception_called_back". Those of `helpers::HARMLESS_FUNCTIONS` come back and write
//!    nothing that a program sees (`kernel/bpf/helpers.c`); by hand "rcu",
//!    "preemption", "pointer_of_the_kernel", "lock_that_may_fail",
//!    "dynptr_size", "words". Objects that a program makes are neither in a map nor
//!    on a stack (`bpf_obj_new_impl`); by hand "own_object", "exchanged_objects…",
//!    "list_of_objects". What a function saves of the processor is on the stack
//!    (`process_irq_flag`); by hand "interrupts_off", "lock_without_interrupts".
//! 7. A function called back has its own frame, the registers and stack that it
//!    is handed, and the maps: `calls::call_unmodelled` forgets all of those.
//! 8. A helper writes at most the memory that it is handed; those in `helpers`
//!    write what their prototypes say (`bpf_func_proto`, `kernel/bpf/`).
//!    `counters::records`, `counters::updates`; by hand "queue_beside".
//!    `bpf_probe_read_kernel` does not fail on memory that is there and the
//!    program's own (`copy_from_kernel_nofault`). `calls::reads_own_memory`; by
//!    hand "own_memory".
//!    Memory that is described by a dynptr counts as written when the dynptr is
//!    made, which only a map's value and a record can be
//!    (`bpf_dynptr_from_mem`, `check_helper_call`); by hand "dynptr_…",
//!    "slice_…", "data_handed_to_a_helper".
//! 9. A store through an address that gpumap lost track of goes to a map of the
//!    program or to its stack: `memory::write_anywhere`;
//!    `alias::a_stack_pointer_beside_a_helper`.
//!
//! 32. The address of a map's value comes from an instruction that names the
//!     map, from a lookup, from a stack, from a function of the program, or from
//!     a helper that was handed the map or a value of it: nothing that is read
//!     from a map or from the kernel leads to where a program may write in a map
//!     (`check_mem_access`, `map_kptr_match_type`). `stores`; by hand
//!     "complex_…".
//! 33. A function that a timer or a work queue calls later is one of the program,
//!     handed the map and the value of the timer (`bpf_timer_cb`,
//!     `kernel/bpf/helpers.c`). What it writes is written between two questions.
//!     `calls::call_unmodelled`; by hand "timer", "timer_beside", "timer_in_the_policy",
//!     "work_queue".
//!
//! **What is in a map**
//!
//! 10. User space reads what programs read, except for locks, timers, lists and
//!     pointers of the kernel, which it reads as zeros: `copy_map_value`,
//!     `check_and_init_map_value`, `linux/bpf.h`. `bytecode::btf`, `table`;
//!     `types::a_kernel_pointer_in_a_map`.
//! 11. A per-CPU value is one of those listed for all possible CPUs: `table`
//!     uses it only where all are alike; `tests/kernel/generated.rs`, `mutable_maps`.
//!     What a program has written to its own copy is not what it reads there later:
//!     the kernel may have run another program, or the same one for another process,
//!     on the same CPU in between. `memory::store_at`; by hand "scratch_of_a_cpu".
//! 12. The longest prefix of a trie is found: `trie_lookup_elem`,
//!     `kernel/bpf/lpm_trie.c`. `lookup::longest_prefixes`;
//!     `counters::prefixes`.
//!
//! 39. What a map keeps for a cgroup is kept for that to which the program is attached:
//!     the one asked about, or one above (`bpf_get_local_storage`,
//!     `cgroup_storage_lookup`, `kernel/bpf/local_storage.c`); its key begins with the
//!     cgroup's id. `lookup::storage_of_cgroup`; by hand "storage_never_written",
//!     "cgroup_storage_decides".
//! 40. The root of all cgroups has the id 1, and the levels of
//!     `bpf_get_current_ancestor_cgroup_id` are counted from it; where there is none, the
//!     id is 0 (`cgroup_ancestor`, `linux/cgroup.h`). `Context::path`; by hand
//!     "ancestors".
//!
//! **What the kernel writes into programs**
//!
//! 13. A program cannot add to a map's address (`adjust_ptr_min_max_vals`), so
//!     `map + constant` is an inlined lookup (`array_map_gen_lookup`), unless
//!     the address went through `bpf_rdonly_cast`, which is written out as
//!     `r0 = r1` (`fixup_kfunc_call`). `machine::perhaps_cast`;
//!     `types::a_cast_of_a_map`.
//! 14. Only `__htab_map_lookup_elem` returns an element, and what follows steps
//!     to its value (`htab_map_gen_lookup`). Without its name a call that looks
//!     so may be any (`calls::call_nameless`), unless the tag proves what it is
//!     (25); `hidden::what_looks_like_a_lookup`, `lost::a_hidden_delete`.
//! 38. What a program reads `step` bytes or more behind what a call returned, where the
//!     values of the map in r1 end before, is no value that the call found
//!     (`check_map_access`), and no number (`check_mem_access`): the kernel has written
//!     out a lookup. The one other helper that returns an address which a program may
//!     read there, `bpf_get_current_task_btf`, takes no arguments; a program that sets
//!     up a map and a key for it wants to mislead (as in 25).
//!     `as_loaded::element_step`; `hidden::a_lookup_that_can_be_nothing_else`,
//!     `hidden::what_looks_like_a_lookup_and_is_read`.
//! 15. A register move with offset -1 adds the CPU's base to a per-CPU address
//!     (`BPF_MOV64_PERCPU_REG`). `compute::on_this_cpu`; `counters::counters`.
//! 16. Loads and stores with an order (Linux 6.15) are loads and stores for a
//!     program that runs alone: `counters::ordered_accesses`.
//!
//! 25. The tag is a hash of the program as it was loaded, numbers of helpers
//!     included and numbers of maps left out: SHA-256 since Linux 6.18, SHA-1
//!     before (`bpf_prog_calc_tag`, `kernel/bpf/core.c`). A program that differs
//!     from another only in which helpers it calls has another tag: 64 bits,
//!     of which a search of gpumap's length gives 12 away. Who can look for two
//!     with the same tag may load device programs, and so allow what they like.
//!     `hidden`, `as_loaded`; all of `hidden`.
//! 26. What the verifier writes into a program it writes in place of single
//!     instructions and in their order, and corrects jumps
//!     (`bpf_patch_insn_data`). `as_loaded`; a wrong account of it gives another
//!     tag, and the calls stay unknown: `hidden::dead_code`.
//!
//! **Addresses and functions that the kernel calls**
//!
//! 19. Two addresses compare as their distances do only inside one object that
//!     there is once (a stack frame, the argument, the values of an array, which are
//!     one after the other); the verifier lets programs
//!     with CAP_PERFMON compare any two (`check_cond_jmp_op`).
//!     `compute::are_in_one_place`; all of `pointers`, by hand
//!     "end_of_a_table".
//! 20. `bpf_for_each_map_elem` visits an array by number and a hash table in the
//!     order in which user space lists it (`bpf_for_each_hash_elem` and
//!     `htab_map_get_next_key`, `kernel/bpf/hashtab.c`, walk the same buckets).
//!     `callbacks`; `tests/kernel/compiled/mod.rs`, class "callbacks". Older kernels
//!     call the helper itself, newer ones what it calls; by hand "visited…" on both.
//! 21. A function that is called back has a frame of its own in every round and
//!     ends the helper with any result but 0 (`bpf_loop`,
//!     `kernel/bpf/bpf_iter.c`). With any flag `bpf_loop` fails before the first
//!     round. `callbacks`; class "callbacks", by hand "loop_flags".
//! 22. An iterator over numbers is two numbers on the stack, and one over the bits of a
//!     word sixteen bytes, which no other code touches (`process_iter_arg`).
//!     `kernel_functions`; class "iterators", by hand "bits…".
//! 23. Only the call behind a timed `may_goto` uses r11 (or r12), and it keeps r0 to r5
//!     (`arch_bpf_timed_may_goto`). `calls`; `pointers::a_loop_by_the_clock`.
//! 24. No program puts maps into a map of maps
//!     (`check_map_func_compatibility`); which map an entry is, is what user
//!     space reads. `lookup::inner_of`; class "inner maps".
//!
//! 27. The copies that one CPU has of the entries of a per-CPU array are not
//!     beside each other (`bpf_array_alloc_percpu`, `kernel/bpf/arraymap.c`),
//!     and a program may read behind one after `bpf_rdonly_cast`.
//!     `lookup::per_cpu_entry`; `memory::behind_a_copy_of_a_cpu`. The value of a
//!     CPU is there if its number is below that of the highest possible one
//!     (`bpf_map_lookup_percpu_elem`); user space is shown one copy for each
//!     possible CPU, and their numbers may have gaps. `lookup::lookup_in`; by hand
//!     "value_of_a_cpu".
//! 28. A number below 2^32 is no address of a map or of the stack; any other
//!     may be one, wherever this kernel keeps its memory.
//!     `word::may_be_address`; `tests/offline/regressions.rs`,
//!     `addresses_with_five_levels`.
//! 29. Programs reach an arena by its own instructions alone, whose addresses
//!     are below 2^32 and which write to nothing else (`BPF_PROBE_MEM32`,
//!     shown as plain loads and stores). `word::may_be_address`;
//!     `memory::shared_with_user_space`. Taking its pages and giving them back
//!     touches nothing else of a program's (`arena_alloc_pages`, `arena_free_pages`,
//!     `kernel/bpf/arena.c`); by hand "arena_pages".
//! 30. A tail call to an index without a program falls through, and only user
//!     space puts programs into the map (`check_map_func_compatibility`); what it puts
//!     there later is as in 36. A program that is called begins with the context, with
//!     nothing else in its registers, and in the frame of the function that calls it,
//!     to whose caller it returns (`__bpf_tail_call`, `emit_bpf_tail_call_indirect`). After 33 calls
//!     the next falls through; whether calls to nowhere and those of functions are
//!     counted differs between kernels. What `bpf_get_local_storage` gives it is its caller's, so one that
//!     has such a map is not followed.
//!     `linked`, `callbacks`; all of `tail_calls`, `memory::a_map_without_programs`, by hand "tail_call_…".
//! 31. A function of a device program is replaced (`freplace`) only by a program
//!     of type `EXT` through a link that names its target, and only if the device
//!     program has types (`bpf_check_attach_target`,
//!     `bpf_tracing_link_fill_link_info`, `kernel/bpf/syscall.c`; before Linux
//!     5.13 the link does not name it, before 5.8 it cannot be listed, and the
//!     program is unknown). `observe::programs::replaced`, `policy::written`;
//!     `tests/offline/regressions.rs`, `replaced_function`. Not asked of a kernel:
//!     that of the tests refuses every program that attaches to another one
//!     (`EPERM` before the verifier sees it, whatever the arguments).
//! 34. Programs that watch (`fentry`, `fexit`) do not change what a device program
//!     returns; one that does (`fmod_ret`) attaches to no BPF program, and in the
//!     kernel to functions that are open to error injection or belong to the
//!     security modules (`bpf_check_attach_target`,
//!     `check_attach_modify_return`). What it refuses there is not the device
//!     cgroup's answer. No test, for the same reason.
//! 35. Masks of CPUs are not for device programs (`cpumask_kfunc_init`), by hand
//!     "cpumask", and neither are stacks of their own (`bpf_enable_priv_stack`,
//!     for programs that trace), by hand "private_stacks".
//!
//! 41. A move that extends a sign makes a number of an address, and no program uses that
//!     as an address: to read, to write, to add to one, or for a helper
//!     (`check_alu_op`, `check_mem_access`, `adjust_reg_min_max_vals`). So a move in a
//!     listing that does not show its kind is plain where the program goes on to use what
//!     it leaves as an address. Where it compares that first, the use has to follow on
//!     every path on which it is not null: the verifier went one of them. (A program may
//!     compare what such a move leaves; one with CAP_PERFMON is not refused.)
//!     `plain_moves`; all of `moves`, `tests/offline/program_formats.rs`,
//!     `what_a_listing_hides_does_not_matter` and `a_move_that_is_only_compared`.
//!
//! **What is asked**
//!
//! 17. Requests are 0, 1, 2, 4 and 6, majors below 4096, minors below 2^20, and
//!     `c 0:0` is not asked about: `devcgroup_inode_permission`, `fs/namei.c`.
//!     `inputs::reachable`, `Device::is_never_asked`; `tests/kernel/commands.rs`.
//! 36. What others than the device programs asked about write to their maps
//!     between the observation and a question is not foreseen: user space, by
//!     bpf(2) or where it has mapped an array, and programs of other kinds that
//!     share a map. An answer is that of the moment of the observation; by hand
//!     "globals".
//! 37. Programs and links may be replaced while gpumap asks:
//!     `observe::cgroups::recheck` asks again until nothing changed;
//!     `updates::a_link_that_is_updated`.
//! 18. Between two questions the same programs may have run on any other
//!     question: `decoder::settle`; all of `tests/kernel/assumptions/lost.rs`.
