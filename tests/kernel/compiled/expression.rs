//! Expressions and simple statements over the question's numbers.

use super::write::Writer;
use crate::support::rng::Rng;

/// The numbers that a program is about.
#[derive(Clone, Debug)]
pub struct Names {
    pub majors: Vec<u32>,
    pub minors: Vec<u32>,
}

impl Names {
    pub fn pick(rng: &mut Rng) -> Self {
        let mut majors = vec![195, rng.pick(&[226, 235, 1, 10, 136, 511])];
        majors.push(rng.below(4096));
        let mut minors = vec![0, 3, rng.below(8), rng.pick(&[128, 254, 255, 256])];
        minors.push(rng.below(1 << 20));
        Self { majors, minors }
    }
}

const LEAVES: &[&str] =
    &["a", "b", "(u64)c", "(u64)s", "(u64)major", "(u64)minor", "(u64)type", "(u64)access"];
const NARROW: &[&str] = &["major", "minor", "c", "(u32)a", "(u32)b", "access", "type", "(u32)s"];

impl Writer {
    pub fn major(&mut self) -> u32 {
        let majors = self.names.majors.clone();
        self.rng.pick(&majors)
    }

    pub fn minor(&mut self) -> u32 {
        let minors = self.names.minors.clone();
        self.rng.pick(&minors)
    }

    /// A number of 64 bits: what does not fit into an `int` is undefined there, and the
    /// compiler leaves nothing of a program that decides by it.
    fn constant(&mut self) -> String {
        match self.rng.below(5) {
            0 => format!("{}ULL", self.major()),
            1 => format!("{}ULL", self.minor()),
            2 => format!("{}ULL", self.rng.below(16)),
            3 => format!("{:#x}ULL", 1u64 << self.rng.below(24)),
            _ => format!("{:#x}ULL", self.rng.next() >> self.rng.pick(&[0, 20, 40, 52])),
        }
    }

    /// A 64-bit expression.
    pub fn expression(&mut self, depth: u32) -> String {
        if depth == 0 || self.rng.chance(20) {
            return if self.rng.chance(30) { self.constant() } else { self.rng.pick(LEAVES).to_owned() };
        }
        let left = self.expression(depth - 1);
        match self.rng.below(14) {
            0..6 => {
                let (operator, right) =
                    (self.rng.pick(&["+", "-", "^", "|", "&"]), self.expression(depth - 1));
                format!("({left} {operator} {right})")
            }
            6 => format!("({left} << {})", self.rng.below(40)),
            7 => format!("({left} >> {})", self.rng.below(40)),
            8 => format!("((u64)((s64){left} >> {}))", self.rng.below(40)),
            9 => {
                let to = self.rng.pick(&["s8", "s16", "s32", "u8", "u16", "u32"]);
                format!("((u64)({to}){left})")
            }
            10 => format!("({left} * {})", self.rng.pick(&[3, 5, 10, 16, 20, 255])),
            11 => format!(
                "((u32){left} {} {})",
                self.rng.pick(&["/", "%"]),
                self.rng.pick(&[3, 7, 16, 20, 100])
            ),
            12 => {
                let swap = self.rng.pick(&[
                    "__builtin_bswap32((u32)",
                    "__builtin_bswap64(",
                    "__builtin_bswap16((u16)",
                ]);
                format!("{swap}{left})")
            }
            _ => {
                let condition = self.condition();
                let right = self.expression(depth - 1);
                format!("({condition} ? {left} : {right})")
            }
        }
    }

    /// Something that is true or false.
    pub fn condition(&mut self) -> String {
        let (major, minor) = (self.major(), self.minor());
        let narrow = self.rng.pick(NARROW);
        match self.rng.below(10) {
            0 => format!("(major == {major} && minor == {minor})"),
            1 => format!("(major != {major} || minor > {minor})"),
            2 => format!("(type == {} && (access & {}))", self.rng.between(1, 2), self.rng.between(1, 6)),
            3 => format!("((1ULL << (minor & 63)) & {:#x}ULL)", self.rng.next()),
            4 => format!(
                "({narrow} {} {})",
                self.rng.pick(&["<", "<=", ">", ">=", "==", "!="]),
                self.rng.below(300)
            ),
            5 => format!(
                "((s32)({narrow} - {minor}) {} {})",
                self.rng.pick(&["<", ">", "<=", ">="]),
                self.rng.between(0, 9)
            ),
            6 => format!("(minor - {} < {})", self.rng.below(64), self.rng.between(1, 70)),
            7 => {
                let (left, right) = (self.expression(1), self.expression(1));
                format!("({left} {} {right})", self.rng.pick(&["<", "==", ">="]))
            }
            8 => format!(
                "(({narrow} & {:#x}) == {})",
                self.rng.pick(&[1, 3, 7, 0x80, 0xff]),
                self.rng.below(4)
            ),
            _ => format!("((access & {}) == access)", self.rng.below(8)),
        }
    }

    pub fn assign(&mut self) {
        let to = self.rng.pick(&["a", "b", "c", "s"]);
        let how = self.rng.pick(&["=", "+=", "^=", "-=", "|="]);
        let from = self.expression(2);
        line!(self, "{to} {how} {from};");
    }

    pub fn decide(&mut self) {
        let condition = self.condition();
        let how = self.rng.pick(&[
            "verdict ^= 1",
            "verdict = 0",
            "verdict = 1",
            "verdict |= a & 1",
            "verdict &= c",
        ]);
        line!(self, "if ({condition}) {how};");
    }

    /// A rule as device policies have them.
    pub fn rule(&mut self) {
        let (major, minor, verdict) = (self.major(), self.minor(), self.rng.below(2));
        let with = match self.rng.below(4) {
            0 => String::new(),
            1 => format!(" && minor == {minor}"),
            2 => format!(" && minor >= {} && minor <= {}", minor / 2, minor),
            _ => format!(" && (access & {}) == access", self.rng.between(1, 7)),
        };
        line!(self, "if (type == 2 && major == {major}{with}) return {verdict};");
    }

    /// Bytes of the question put together in memory and taken apart again.
    pub fn pack(&mut self) {
        let name = self.fresh("pack");
        let (at, size) = (self.rng.below(8), self.rng.pick(&["u8", "u16"]));
        line!(
            self,
            "union {{ u64 whole; u32 half[2]; u16 part[4]; u8 byte[8]; }} {name} = {{ .whole = 0 }};"
        );
        line!(self, "{name}.half[{}] = minor; {name}.byte[{at}] ^= (u8)major;", self.rng.below(2));
        self.line("asm volatile(\"\" ::: \"memory\");");
        let place = if size == "u8" {
            format!("byte[{}]", self.rng.below(8))
        } else {
            format!("part[{}]", self.rng.below(4))
        };
        line!(self, "b += {name}.{place}; a ^= {name}.whole;");
    }
}
