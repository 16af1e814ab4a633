//! Writes random C programs as people write them: a policy with counters, maps,
//! loops and functions around it.

use std::fmt::Write as _;

use super::expression::Names;
use crate::support::rng::Rng;

/// Map contents to fill in after loading.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The map's name in the program.
    pub map: String,
    /// Whether every CPU has a value of its own; all get the same.
    pub per_cpu: bool,
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One generated object file.
#[derive(Debug)]
pub struct Written {
    pub text: String,
    /// Names of its programs, in the order to attach them.
    pub programs: Vec<&'static str>,
    pub fills: Vec<Fill>,
    /// Numbers worth asking about.
    pub majors: Vec<u32>,
    pub minors: Vec<u32>,
}

/// A kind of program.
pub struct Class {
    pub name: &'static str,
    /// Whether everything that decides can be read.
    pub readable: bool,
    pub write: fn(&mut Writer),
}

/// All kinds. The last three depend on what nobody can read beforehand: what
/// the programs themselves wrote at earlier questions, and who asks when.
pub const CLASSES: &[Class] = &[
    Class { name: "arithmetic", readable: true, write: Writer::arithmetic },
    Class { name: "switch tables", readable: true, write: Writer::switches },
    Class { name: "loops", readable: true, write: Writer::loops },
    Class { name: "functions", readable: true, write: Writer::functions },
    Class { name: "maps", readable: true, write: Writer::maps },
    Class { name: "inner maps", readable: true, write: Writer::inner_maps },
    Class { name: "counters", readable: true, write: Writer::counters },
    Class { name: "logging", readable: true, write: Writer::logging },
    Class { name: "callbacks", readable: true, write: Writer::callbacks },
    Class { name: "iterators", readable: true, write: Writer::iterators },
    Class { name: "two writers", readable: true, write: Writer::two_writers },
    Class { name: "everything", readable: true, write: Writer::everything },
    Class { name: "own state", readable: false, write: Writer::own_state },
    Class { name: "who and when", readable: false, write: Writer::who_and_when },
    Class { name: "CPU and cgroup", readable: false, write: Writer::cpu_and_cgroup },
];

/// A program being written.
pub struct Writer {
    pub rng: Rng,
    pub names: Names,
    /// Maps, tables and functions in front of the programs.
    pub above: String,
    /// Statements of the program being written.
    pub body: String,
    pub fills: Vec<Fill>,
    number: u32,
    cgroup_id: u64,
    programs: Vec<&'static str>,
    done: String,
}

/// Writes a program of `class`.
pub fn write(class: &Class, mut rng: Rng, cgroup_id: u64) -> Written {
    let names = Names::pick(&mut rng);
    let mut writer = Writer {
        rng,
        names,
        above: String::new(),
        body: String::new(),
        fills: Vec::new(),
        number: 0,
        cgroup_id,
        programs: Vec::new(),
        done: String::new(),
    };
    (class.write)(&mut writer);
    if writer.programs.is_empty() {
        writer.end("policy");
    }
    let text = format!("{}\n{}\n{}", include_str!("prelude.h"), writer.above, writer.done);
    Written {
        text,
        programs: writer.programs,
        fills: writer.fills,
        majors: writer.names.majors,
        minors: writer.names.minors,
    }
}

impl Writer {
    /// A name that no other map or function has.
    pub fn fresh(&mut self, stem: &str) -> String {
        self.number += 1;
        format!("{stem}{}", self.number)
    }

    /// Adds a line to the program.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.body.push_str(&format!("\t{}\n", text.as_ref()));
    }

    /// The program written so far gets its head and tail.
    fn end(&mut self, name: &'static str) {
        let body = std::mem::take(&mut self.body);
        let last = self.condition();
        let way =
            self.rng.pick(&["return verdict & 1;", "return !!verdict;", "if (verdict) return 1; return 0;"]);
        let _ = write!(
            self.done,
            "SEC(\"cgroup/dev\") int {name}(struct bpf_cgroup_dev_ctx *ctx)\n{{\n\
             \tu32 type = ctx->access_type & 0xffff, access = ctx->access_type >> 16;\n\
             \tu32 major = ctx->major, minor = ctx->minor;\n\
             \tu64 a = major, b = minor;\n\tu32 c = minor ^ access;\n\ts32 s = (s32)minor - 3;\n\
             \tu32 verdict = {last};\n{body}\n\t{way}\n}}\n"
        );
        self.programs.push(name);
    }

    fn some(&mut self, least: u32, most: u32, statements: &[fn(&mut Self)]) {
        for _ in 0..self.rng.between(least, most) {
            self.rng.pick(statements)(self);
        }
    }

    fn arithmetic(&mut self) {
        self.some(4, 10, &[Self::assign, Self::assign, Self::rule, Self::decide, Self::pack]);
        self.decide();
    }

    fn switches(&mut self) {
        self.some(1, 2, &[Self::assign, Self::rule]);
        self.some(1, 3, &[Self::switch, Self::switch, Self::table]);
        self.decide();
    }

    fn loops(&mut self) {
        self.some(0, 2, &[Self::assign, Self::rule]);
        self.some(1, 2, &[Self::counted_loop, Self::list_loop, Self::state_machine]);
        self.decide();
    }

    fn functions(&mut self) {
        self.some(1, 3, &[Self::function, Self::global_function, Self::pointer_function, Self::unoptimised]);
        self.some(0, 2, &[Self::assign, Self::rule]);
        self.decide();
    }

    fn maps(&mut self) {
        self.some(0, 1, &[Self::assign]);
        self.some(1, 3, &[Self::policy_map, Self::array_map, Self::trie, Self::globals, Self::either_map]);
        self.decide();
    }

    fn inner_maps(&mut self) {
        self.some(0, 1, &[Self::assign, Self::rule]);
        self.inner_map();
        self.decide();
    }

    fn counters(&mut self) {
        self.some(1, 3, &[Self::counter, Self::counter, Self::hit_counter, Self::global_counter]);
        self.some(1, 3, &[Self::rule, Self::policy_map, Self::decide]);
    }

    fn logging(&mut self) {
        self.some(1, 3, &[Self::log_record, Self::log_output, Self::log_update, Self::read_argument]);
        self.some(1, 3, &[Self::rule, Self::assign, Self::decide]);
    }

    fn callbacks(&mut self) {
        self.some(0, 1, &[Self::assign, Self::rule]);
        self.some(1, 2, &[Self::called_loop, Self::each_entry]);
        self.decide();
    }

    fn iterators(&mut self) {
        self.some(0, 1, &[Self::assign, Self::rule]);
        self.some(1, 2, &[Self::iterator]);
        self.decide();
    }

    fn two_writers(&mut self) {
        const PARTS: &[fn(&mut Writer)] = &[
            Writer::rule,
            Writer::assign,
            Writer::decide,
            Writer::counter,
            Writer::policy_map,
            Writer::change_result,
        ];
        self.some(1, 4, PARTS);
        self.end("first");
        self.some(1, 4, PARTS);
        self.end("second");
    }

    fn everything(&mut self) {
        self.some(
            3,
            6,
            &[
                Self::assign,
                Self::rule,
                Self::switch,
                Self::table,
                Self::list_loop,
                Self::function,
                Self::global_function,
                Self::pointer_function,
                Self::policy_map,
                Self::array_map,
                Self::trie,
                Self::inner_map,
                Self::globals,
                Self::counter,
                Self::log_output,
                Self::called_loop,
                Self::iterator,
                Self::read_argument,
            ],
        );
        self.decide();
    }

    fn own_state(&mut self) {
        self.some(0, 2, &[Self::rule, Self::assign]);
        self.own_counter();
        self.decide();
    }

    fn who_and_when(&mut self) {
        self.some(0, 2, &[Self::rule, Self::assign]);
        self.some(1, 2, &[Self::who]);
        self.decide();
    }

    fn cpu_and_cgroup(&mut self) {
        let id = self.cgroup_id + u64::from(self.rng.below(2));
        let condition = self.condition();
        line!(self, "if (bpf_get_current_cgroup_id() == {id}ULL && {condition}) verdict ^= 1;");
        self.some(1, 2, &[Self::rule, Self::counter]);
        if self.rng.chance(40) {
            self.line("if (bpf_get_smp_processor_id() == 77777) verdict ^= 1;");
        }
        self.decide();
    }
}
