/* What the generated programs need of the kernel's headers: none of them has to be installed. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
#define UNOPTIMISED __attribute__((noinline, optnone))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]

struct bpf_cgroup_dev_ctx {
	u32 access_type;
	u32 major;
	u32 minor;
};

struct key {
	u32 major;
	u32 minor;
};

struct entry {
	u32 allow;
	u32 access;
	u64 hits;
};

struct prefix {
	u32 length;
	u8 data[4];
};

enum { HASH = 1, ARRAY = 2, PERCPU_HASH = 5, PERCPU_ARRAY = 6, LRU_HASH = 9, LRU_PERCPU_HASH = 10, LPM_TRIE = 11,
       ARRAY_OF_MAPS = 12, HASH_OF_MAPS = 13, RINGBUF = 27 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_current_uid_gid)(void) = (void *)15;
static long (*bpf_get_current_comm)(void *to, u32 size) = (void *)16;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static long (*bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;
static long (*bpf_loop)(u32 count, void *callback, void *ctx, u64 flags) = (void *)181;
static int (*bpf_get_retval)(void) = (void *)186;
static int (*bpf_set_retval)(int retval) = (void *)187;

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __attribute__((section(".ksyms")));
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __attribute__((section(".ksyms")));
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __attribute__((section(".ksyms")));

char LICENSE[] SEC("license") = "GPL";
