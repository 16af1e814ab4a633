//! Maps: policies kept in them, counters and records beside a policy.

use super::write::{Fill, Writer};

const HASHES: &[&str] = &["HASH", "LRU_HASH", "PERCPU_HASH", "LRU_PERCPU_HASH"];

impl Writer {
    fn declare(&mut self, name: &str, kind: &str, entries: u32, key: &str, value: &str, more: &str) {
        above!(
            self,
            "struct {{ __uint(type, {kind}); __uint(max_entries, {entries}); __type(key, {key}); __type(value, {value}); {more}}} {name} SEC(\".maps\");"
        );
    }

    fn entry(&mut self) -> Vec<u8> {
        let mut value = self.rng.below(3).to_le_bytes().to_vec();
        value.extend(self.rng.between(1, 7).to_le_bytes());
        value.extend([0; 8]);
        value
    }

    /// A hash table by device, with contents.
    pub fn filled_hash(&mut self) -> String {
        let (name, kind) = (self.fresh("devices"), self.rng.pick(HASHES));
        self.hash_of_kind(&name, kind);
        name
    }

    fn hash_of_kind(&mut self, name: &str, kind: &str) {
        self.declare(name, kind, 32, "struct key", "struct entry", "");
        let mut entries = Vec::new();
        for _ in 0..self.rng.between(1, 8) {
            let mut key = self.major().to_le_bytes().to_vec();
            key.extend(self.minor().to_le_bytes());
            entries.push((key, self.entry()));
        }
        self.fills.push(Fill { map: name.to_owned(), per_cpu: kind.contains("PERCPU"), entries });
    }

    /// An array of eight entries, with contents.
    pub fn filled_array(&mut self) -> String {
        let (name, kind) = (self.fresh("numbers"), self.rng.pick(&["ARRAY", "PERCPU_ARRAY"]));
        self.declare(&name, kind, 8, "u32", "struct entry", "");
        let entries = (0..8u32).map(|index| (index.to_le_bytes().to_vec(), self.entry())).collect();
        self.fills.push(Fill { map: name.clone(), per_cpu: kind.contains("PERCPU"), entries });
        name
    }

    fn use_entry(&mut self, name: &str) {
        let found = self.rng.pick(&[
            "return X->allow != 0;",
            "{ if ((access & X->access) == access) return 1; verdict = 0; }",
            "verdict = X->allow & 1;",
            "a += X->access;",
        ]);
        line!(self, "if ({name}) {}", found.replace('X', name));
    }

    /// A policy in a hash table, as libvirt and others keep it.
    pub fn policy_map(&mut self) {
        let map = self.filled_hash();
        let (key, value) = (self.fresh("key"), self.fresh("value"));
        line!(self, "struct key {key} = {{ major, minor }};");
        line!(self, "struct entry *{value} = bpf_map_lookup_elem(&{map}, &{key});");
        if self.rng.chance(30) {
            line!(
                self,
                "if (!{value}) {{ {key}.minor = {}; {value} = bpf_map_lookup_elem(&{map}, &{key}); }}",
                self.minor()
            );
        }
        self.use_entry(&value);
    }

    pub fn array_map(&mut self) {
        let map = self.filled_array();
        let (key, value) = (self.fresh("index"), self.fresh("value"));
        let index = self.rng.pick(&["minor", "minor & 7", "major - 190", "c"]);
        line!(self, "u32 {key} = {index};");
        line!(self, "struct entry *{value} = bpf_map_lookup_elem(&{map}, &{key});");
        self.use_entry(&value);
    }

    /// One of two tables: the call is not inlined, or is, as the compiler likes.
    pub fn either_map(&mut self) {
        let (one, two) = (self.fresh("first"), self.fresh("second"));
        self.hash_of_kind(&one, "HASH");
        self.hash_of_kind(&two, "HASH");
        let (key, value, condition) = (self.fresh("key"), self.fresh("value"), self.condition());
        line!(self, "struct key {key} = {{ major, minor }}; void *{key}_map = &{one};");
        line!(self, "if ({condition}) {key}_map = &{two};");
        line!(self, "asm volatile(\"\" : \"+r\"({key}_map));");
        line!(self, "struct entry *{value} = bpf_map_lookup_elem({key}_map, &{key});");
        self.use_entry(&value);
    }

    pub fn trie(&mut self) {
        let map = self.fresh("prefixes");
        self.declare(&map, "LPM_TRIE", 16, "struct prefix", "struct entry", "__uint(map_flags, 1); ");
        let mut entries = Vec::new();
        for _ in 0..self.rng.between(1, 6) {
            let mut key = self.rng.pick(&[0u32, 4, 8, 15, 16, 24, 31, 32]).to_le_bytes().to_vec();
            key.extend((self.major() as u16).to_be_bytes());
            key.extend((self.minor() as u16).to_be_bytes());
            entries.push((key, self.entry()));
        }
        self.fills.push(Fill { map: map.clone(), per_cpu: false, entries });
        let (key, value, length) =
            (self.fresh("key"), self.fresh("value"), self.rng.pick(&["32", "32", "16", "access * 8"]));
        line!(self, "struct prefix {key} = {{ {length}, {{ major >> 8, major, minor >> 8, minor }} }};");
        line!(self, "struct entry *{value} = bpf_map_lookup_elem(&{map}, &{key});");
        self.use_entry(&value);
    }

    /// Global variables: constant (`.rodata`), set (`.data`), zero (`.bss`).
    pub fn globals(&mut self) {
        let name = self.fresh("config");
        let (kind, value) =
            (self.rng.pick(&["const volatile", "volatile"]), self.rng.pick(&[0, 1, 195, 255]));
        above!(
            self,
            "{kind} u32 {name} = {value};\n{kind} u32 {name}_list[8] = {{ {}, {}, 7 }};",
            self.minor(),
            self.major()
        );
        let field = self.rng.pick(&["minor", "major", "access"]);
        line!(self, "if ({field} == {name} || {field} == {name}_list[minor & 7]) verdict ^= 1;");
    }

    /// A map of maps by driver, in them verdicts by device.
    pub fn inner_map(&mut self) {
        let (outer, kind) = (self.fresh("drivers"), self.rng.pick(&["ARRAY_OF_MAPS", "HASH_OF_MAPS"]));
        let array = self.rng.chance(50);
        let (inner_kind, key) = if array { ("ARRAY", "u32") } else { ("HASH", "struct key") };
        above!(
            self,
            "struct {outer}_inner {{ __uint(type, {inner_kind}); __uint(max_entries, 8); __type(key, {key}); __type(value, struct entry); }} {outer}_a SEC(\".maps\"), {outer}_b SEC(\".maps\");\n\
             struct {{ __uint(type, {kind}); __uint(max_entries, 8); __type(key, u32); __array(values, struct {outer}_inner); }} {outer} SEC(\".maps\") = {{ .values = {{ [{}] = &{outer}_a, [{}] = &{outer}_b }} }};",
            self.rng.below(4),
            self.rng.between(4, 7)
        );
        for inner in ["a", "b"] {
            let entries = (0..if array { 8u32 } else { 4 })
                .map(|index| {
                    let mut key = if array { index } else { self.major() }.to_le_bytes().to_vec();
                    if !array {
                        key.extend(self.minor().to_le_bytes());
                    }
                    (key, self.entry())
                })
                .collect();
            self.fills.push(Fill { map: format!("{outer}_{inner}"), per_cpu: false, entries });
        }
        let (at, value) = (self.fresh("at"), self.fresh("value"));
        line!(
            self,
            "u32 {at} = {}; struct entry *{value} = 0;",
            self.rng.pick(&["major & 7", "minor & 7", "access"])
        );
        line!(self, "void *{at}_map = bpf_map_lookup_elem(&{outer}, &{at});");
        let key = if array { "u32 K = minor & 7;" } else { "struct key K = { major, minor };" };
        line!(
            self,
            "if ({at}_map) {{ {} {value} = bpf_map_lookup_elem({at}_map, &{at}_key); }}",
            key.replace('K', &format!("{at}_key"))
        );
        self.use_entry(&value);
    }

    /// A counter in a map of any kind.
    pub fn counter(&mut self) {
        let (map, kind) = (
            self.fresh("counts"),
            self.rng.pick(&["ARRAY", "PERCPU_ARRAY", "HASH", "LRU_HASH", "PERCPU_HASH"]),
        );
        self.declare(&map, kind, 64, "u32", "struct entry", "");
        let (key, value) = (self.fresh("counted"), self.fresh("count"));
        line!(
            self,
            "u32 {key} = {}; struct entry *{value} = bpf_map_lookup_elem(&{map}, &{key});",
            self.rng.pick(&["0", "major & 31", "access"])
        );
        let count = self
            .rng
            .pick(&["__sync_fetch_and_add(&X->hits, 1);", "X->hits++;", "X->access = minor;"])
            .replace('X', &value);
        if kind.ends_with("HASH") {
            let first = self.fresh("zero");
            line!(self, "struct entry {first} = {{ 0, 0, 1 }};");
            line!(self, "if ({value}) {{ {count} }} else bpf_map_update_elem(&{map}, &{key}, &{first}, 0);");
        } else {
            line!(self, "if ({value}) {{ {count} }}");
        }
    }

    /// Entries of a policy that count their hits.
    pub fn hit_counter(&mut self) {
        let map = self.fresh("devices");
        self.hash_of_kind(&map, "HASH");
        let (key, value) = (self.fresh("key"), self.fresh("value"));
        line!(self, "struct key {key} = {{ major, minor }};");
        line!(self, "struct entry *{value} = bpf_map_lookup_elem(&{map}, &{key});");
        line!(self, "if ({value}) __sync_fetch_and_add(&{value}->hits, 1);");
        self.use_entry(&value);
    }

    pub fn global_counter(&mut self) {
        let name = self.fresh("calls");
        above!(self, "u64 {name}[4];");
        line!(self, "{name}[type & 3]++; __sync_fetch_and_add(&{name}[3], 1);");
    }

    fn ring(&mut self) -> String {
        let name = self.fresh("events");
        above!(
            self,
            "struct {{ __uint(type, RINGBUF); __uint(max_entries, 65536); }} {name} SEC(\".maps\");"
        );
        name
    }

    /// A record with who asks, for user space.
    pub fn log_record(&mut self) {
        let (ring, record) = (self.ring(), self.fresh("record"));
        line!(self, "struct entry *{record} = bpf_ringbuf_reserve(&{ring}, sizeof(*{record}), 0);");
        line!(
            self,
            "if ({record}) {{ {record}->allow = major; {record}->hits = bpf_ktime_get_ns(); bpf_ringbuf_submit({record}, 0); }}"
        );
    }

    pub fn log_output(&mut self) {
        let (ring, event) = (self.ring(), self.fresh("event"));
        line!(
            self,
            "struct {{ u64 when; u32 major, minor; u32 pid, uid; char comm[16]; }} {event} = {{ 0 }};"
        );
        line!(
            self,
            "{event}.when = bpf_ktime_get_ns(); {event}.pid = bpf_get_current_pid_tgid() >> 32; {event}.uid = bpf_get_current_uid_gid();"
        );
        line!(
            self,
            "{event}.major = major; {event}.minor = minor; bpf_get_current_comm({event}.comm, sizeof({event}.comm));"
        );
        line!(self, "bpf_ringbuf_output(&{ring}, &{event}, sizeof({event}), 0); c += {event}.minor;");
    }

    pub fn log_update(&mut self) {
        let (map, kind) = (self.fresh("last"), self.rng.pick(&["HASH", "LRU_HASH", "ARRAY"]));
        self.declare(&map, kind, 64, "u32", "u64", "");
        let key = self.fresh("seen");
        line!(
            self,
            "u32 {key} = major & 31; u64 {key}_at = bpf_ktime_get_ns(); bpf_map_update_elem(&{map}, &{key}, &{key}_at, 0);"
        );
        if kind == "HASH" && self.rng.chance(50) {
            line!(self, "if (access == 1) bpf_map_delete_elem(&{map}, &{key});");
        }
    }

    /// Fields read with `bpf_probe_read_kernel`, as CraneSched does.
    pub fn read_argument(&mut self) {
        let name = self.fresh("read");
        let field = self.rng.pick(&["major", "minor", "access_type"]);
        line!(self, "u32 {name} = 0; bpf_probe_read_kernel(&{name}, sizeof({name}), &ctx->{field});");
        line!(self, "c ^= {name}; if ({name} == {}) verdict ^= 1;", self.rng.pick(&[195, 3, 0, 0x20002]));
    }

    /// A verdict by what earlier questions left.
    pub fn own_counter(&mut self) {
        let (map, kind) = (self.fresh("state"), self.rng.pick(&["ARRAY", "HASH", "PERCPU_ARRAY"]));
        self.declare(&map, kind, 8, "u32", "struct entry", "");
        let (key, value) = (self.fresh("key"), self.fresh("value"));
        line!(self, "u32 {key} = minor & 3; struct entry {key}_new = {{ 1, 1, 1 }};");
        line!(self, "struct entry *{value} = bpf_map_lookup_elem(&{map}, &{key});");
        let condition = self.condition();
        line!(self, "if ({value} && {value}->allow > {}) verdict ^= 1;", self.rng.below(3));
        line!(
            self,
            "if ({value}) {{ if ({condition}) {value}->allow++; }} else bpf_map_update_elem(&{map}, &{key}, &{key}_new, 0);"
        );
    }

    /// A verdict by who asks, when, or by chance.
    pub fn who(&mut self) {
        let condition = self.condition();
        let what = self.rng.pick(&[
            "bpf_ktime_get_ns() & 1",
            "bpf_get_prandom_u32() & 1",
            "(bpf_get_current_pid_tgid() >> 32) == 1",
            "(u32)bpf_get_current_uid_gid() == 0",
            "(u32)bpf_get_current_uid_gid() == 1000",
        ]);
        line!(self, "if ({condition} && ({what})) verdict ^= 1;");
    }
}
