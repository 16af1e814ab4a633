//! Control flow: switches, tables, loops, functions, callbacks.

use std::fmt::Write as _;

use super::write::Writer;

impl Writer {
    pub fn switch(&mut self) {
        let on = self.rng.pick(&["minor", "major", "minor & 15", "access", "(u32)a & 31"]);
        let (mut text, mut labels) = (format!("switch ({on}) {{"), std::collections::BTreeSet::new());
        for _ in 0..self.rng.between(3, 14) {
            labels.insert(match self.rng.below(4) {
                0 => self.major(),
                1 => self.minor(),
                _ => self.rng.below(20),
            });
        }
        for label in labels {
            let what = match self.rng.below(6) {
                0 => "return 0;".to_owned(),
                1 => "return 1;".to_owned(),
                2 => "verdict = 0; break;".to_owned(),
                3 => "verdict ^= 1;".to_owned(),
                4 => format!("a = {}; break;", self.rng.below(300)),
                _ => format!("c += {}; break;", self.rng.below(9)),
            };
            let _ = write!(text, " case {label}: {what}");
        }
        let _ = write!(text, " default: {} }}", self.rng.pick(&["break;", "verdict = 1;", "c = 7;"]));
        self.line(text);
    }

    /// A constant table, which lies in `.rodata`.
    pub fn table(&mut self) {
        let name = self.fresh("table");
        let values: Vec<String> = (0..16).map(|_| self.rng.below(4).to_string()).collect();
        let volatile = self.rng.pick(&["", "volatile "]);
        above!(self, "static const {volatile}u32 {name}[16] = {{ {} }};", values.join(", "));
        let index = self.rng.pick(&["minor & 15", "major & 15", "(u32)a & 15"]);
        let to = self.rng.pick(&["verdict = (", "a += (", "c ^= ("]);
        line!(self, "{to}{name}[{index}]);");
    }

    pub fn counted_loop(&mut self) {
        let (rounds, unroll) = (self.rng.between(2, 24), self.unrolling());
        let (step, condition) = (self.expression(1), self.condition());
        let leave = self.rng.pick(&["break", "verdict ^= 1", "continue"]);
        self.line(unroll);
        line!(
            self,
            "for (u32 i = 0; i < {rounds}; i++) {{ c += i; if ({condition} && (c & {})) {leave}; a += {step} & 0xff; }}",
            self.rng.pick(&[1, 3, 8])
        );
    }

    fn unrolling(&mut self) -> &'static str {
        self.rng.pick(&[
            "",
            "_Pragma(\"unroll\")",
            "_Pragma(\"nounroll\")",
            "_Pragma(\"clang loop unroll_count(4)\")",
        ])
    }

    /// A list of devices, searched.
    pub fn list_loop(&mut self) {
        let name = self.fresh("list");
        let count = self.rng.between(3, 12);
        let entries: Vec<String> = (0..count)
            .map(|_| format!("{{ {}, {}, {} }}", self.major(), self.minor(), self.rng.below(8)))
            .collect();
        above!(
            self,
            "static const volatile struct {{ u32 major, minor, access; }} {name}[{count}] = {{ {} }};",
            entries.join(", ")
        );
        let unroll = self.unrolling();
        self.line(unroll);
        let found = self.rng.pick(&["return 1;", "return 0;", "{ verdict ^= 1; break; }"]);
        line!(
            self,
            "for (u32 i = 0; i < {count}; i++) if ({name}[i].major == major && ({name}[i].minor == minor || \
             {name}[i].minor == 255) && (access & ~{name}[i].access) == 0) {found}"
        );
    }

    /// A small automaton over the bits of the minor number.
    pub fn state_machine(&mut self) {
        let name = self.fresh("step");
        let values: Vec<String> = (0..8).map(|_| self.rng.below(4).to_string()).collect();
        above!(self, "static const volatile u8 {name}[8] = {{ {} }};", values.join(", "));
        let rounds = self.rng.between(4, 12);
        line!(
            self,
            "{{ u32 state = 0, bits = minor; for (u32 i = 0; i < {rounds}; i++) {{ state = {name}[((state & 3) << 1) | \
             (bits & 1)]; bits >>= 1; }} if (state == {}) verdict ^= 1; }}",
            self.rng.below(4)
        );
    }

    pub fn function(&mut self) {
        self.function_as("static NOINLINE");
    }

    pub fn global_function(&mut self) {
        self.function_as("NOINLINE");
    }

    /// What `-O0` makes of a function: everything goes through the stack.
    pub fn unoptimised(&mut self) {
        self.function_as("static UNOPTIMISED");
    }

    fn function_as(&mut self, kind: &str) {
        let name = self.fresh("function");
        let (condition, result, other) = (self.condition(), self.expression(2), self.expression(1));
        above!(
            self,
            "{kind} int {name}(u32 major, u32 minor, u32 type, u32 access)\n{{\n\tu64 a = major + 1, b = minor; u32 c = access; s32 s = minor;\n\
             \tif ({condition}) return {result};\n\treturn {other};\n}}"
        );
        let arguments =
            self.rng.pick(&["major, minor, type, access", "minor, major, access, type", "c, minor, type, s"]);
        let to = self.rng.pick(&["a ^=", "c +=", "verdict =", "s -="]);
        line!(self, "{to} {name}({arguments});");
    }

    /// A function that changes what it is given a pointer to.
    pub fn pointer_function(&mut self) {
        let name = self.fresh("change");
        let (is_global, step) = (self.rng.chance(50), self.rng.below(9));
        let (kind, check) =
            if is_global { ("NOINLINE", "if (!key) return 0; ") } else { ("static NOINLINE", "") };
        above!(
            self,
            "{kind} int {name}(struct key *key, u32 by)\n{{\n\t{check}key->minor += by & 15; key->major ^= {step};\n\treturn key->minor & 1;\n}}"
        );
        let key = self.fresh("changed");
        line!(self, "struct key {key} = {{ major, minor }};");
        line!(
            self,
            "verdict ^= {name}(&{key}, {}); if ({key}.major == {}) verdict = 0; c ^= {key}.minor;",
            self.rng.pick(&["access", "type", "5"]),
            self.major() ^ step
        );
    }

    /// `bpf_loop`, inlined by the kernel or not.
    pub fn called_loop(&mut self) {
        let name = self.fresh("round");
        let (condition, stop) = (self.rng.below(20), self.rng.pick(&["0", "1", "state->minor & 1", "i > 5"]));
        above!(
            self,
            "static long {name}(u32 i, struct key *state)\n{{\n\tif (state->minor == i + {condition}) {{ state->major ^= 1; return {stop}; }}\n\
             \tstate->major += i;\n\treturn 0;\n}}"
        );
        let state = self.fresh("state");
        // Other flags than a constant 0 keep the kernel from inlining the call.
        let (rounds, flags) = (self.rng.between(1, 20), self.rng.pick(&["0", "0", "(a >> 63) >> 1"]));
        line!(self, "struct key {state} = {{ major, minor & 31 }};");
        line!(
            self,
            "if (bpf_loop({rounds}, {name}, &{state}, {flags}) > {}) c ^= 3;",
            self.rng.below(rounds + 1)
        );
        line!(self, "verdict ^= {state}.major & 1;");
    }

    /// `bpf_for_each_map_elem` over a map that nobody writes.
    pub fn each_entry(&mut self) {
        let array = self.rng.chance(50);
        let map = if array { self.filled_array() } else { self.filled_hash() };
        let name = self.fresh("each");
        let key = if array { "u32" } else { "struct key" };
        let test = if array {
            "*key == (state->minor & 7)"
        } else {
            "key->major == state->major && key->minor == state->minor"
        };
        above!(
            self,
            "static long {name}(void *map, {key} *key, struct entry *value, struct key *state)\n{{\n\
             \tif ({test}) {{ state->major = value->allow; return {}; }}\n\treturn 0;\n}}",
            self.rng.below(2)
        );
        let state = self.fresh("seen");
        line!(self, "struct key {state} = {{ major, minor }};");
        line!(self, "if (bpf_for_each_map_elem(&{map}, {name}, &{state}, 0) < 0) return 1;");
        line!(self, "if ({state}.major == {}) verdict ^= 1;", self.rng.below(3));
    }

    /// An open-coded iterator over numbers.
    pub fn iterator(&mut self) {
        let name = self.fresh("it");
        let (start, count) = (self.rng.below(6) as i32 - 2, self.rng.below(12) as i32);
        let end = if self.rng.chance(30) {
            format!("{start} + (s32)(access & 7)")
        } else {
            (start + count).to_string()
        };
        line!(self, "struct bpf_iter_num {name}; int *{name}_at;");
        line!(self, "bpf_iter_num_new(&{name}, {start}, {end});");
        let leave = self.rng.pick(&["break", "verdict ^= 1", "a++"]);
        line!(
            self,
            "while (({name}_at = bpf_iter_num_next(&{name}))) {{ c += *{name}_at; if ((minor & 15) == *{name}_at) {leave}; }}"
        );
        line!(self, "bpf_iter_num_destroy(&{name}); if (c & 1) verdict ^= 1;");
    }

    pub fn change_result(&mut self) {
        let condition = self.condition();
        let value = self.rng.pick(&["0", "-1", "-13", "-2"]);
        match self.rng.below(3) {
            0 => line!(self, "if ({condition} && bpf_get_retval() == -1) verdict = 0;"),
            _ => line!(self, "if ({condition}) {{ bpf_set_retval({value}); return {}; }}", self.rng.below(2)),
        }
    }
}
