//! Random statements that read maps.

use super::state::{Gen, MAJOR, MINOR, STACK, Value};
use crate::support::asm::{alu, cond, helper, size};
use crate::support::source::{MapKind, MapSpec};

/// `BPF_F_RDONLY_PROG`.
const RDONLY_PROG: u32 = 1 << 7;

impl Gen<'_> {
    pub fn map_statement(&mut self) {
        match self.rng.below(4) {
            0 => self.direct_value(),
            1 => self.array_lookup(),
            _ => self.hash_lookup(),
        }
    }

    /// A value of random words that programs like to compare.
    fn map_value(&mut self, size: u32) -> Vec<u8> {
        let mut value = Vec::new();
        while value.len() < size as usize {
            let word = if self.rng.chance(50) { self.rng.below(4) as i32 } else { self.constant() };
            value.extend(word.to_le_bytes());
        }
        value.truncate(size as usize);
        value
    }

    /// The verifier reads read-only arrays itself, but only those of one entry.
    fn array(&mut self, value_size: u32, max_entries: u32) -> usize {
        let entries = (0..max_entries)
            .map(|index| (index.to_le_bytes().to_vec(), self.map_value(value_size)))
            .collect();
        let freeze = self.rng.chance(30);
        let flags = if freeze && max_entries == 1 && self.rng.chance(70) { RDONLY_PROG } else { 0 };
        self.asm.map(MapSpec {
            kind: MapKind::Array,
            key_size: 4,
            value_size,
            max_entries,
            flags,
            freeze,
            entries,
        })
    }

    /// `.rodata`, `.data`: the address of a value in the instruction.
    fn direct_value(&mut self) {
        let value_size = self.rng.pick(&[4, 8, 12, 24, 64]);
        let map = self.array(value_size, 1);
        let pointer = self.target();
        let dst = self.target();
        let size = self.fitting_size(value_size);
        let room = (value_size - u32::try_from(size::bytes(size)).unwrap())
            / u32::try_from(size::bytes(size)).unwrap();
        let offset = self.rng.below(room + 1) * u32::try_from(size::bytes(size)).unwrap();
        self.frame.reserve(pointer);
        if self.rng.chance(50) {
            self.asm.ld_map_value(pointer, map, offset);
            self.asm.ldx(size, dst, pointer, 0);
        } else {
            self.asm.ld_map_value(pointer, map, 0);
            self.asm.ldx(size, dst, pointer, i16::try_from(offset).unwrap());
        }
        self.frame.release(pointer);
        self.set(dst, Value::default());
    }

    fn fitting_size(&mut self, value_size: u32) -> u8 {
        loop {
            let size = self.rng.pick(&[size::B, size::H, size::W, size::DW]);
            if u32::try_from(size::bytes(size)).unwrap() <= value_size {
                return size;
            }
        }
    }

    /// `array[index]`, which the kernel inlines; the index is a constant or a
    /// few bits of the question.
    fn array_lookup(&mut self) {
        if self.joins == 0 {
            return self.direct_value();
        }
        self.joins -= 1;
        let value_size = self.rng.pick(&[4, 8, 12, 24]);
        let max_entries = self.rng.pick(&[1, 2, 3, 4, 5, 8, 13, 16]);
        let map = self.array(value_size, max_entries);
        let inputs = if self.rng.chance(30) {
            let index = self.rng.below(max_entries + 2);
            self.asm.st(size::W, 10, -STACK, index as i32);
            0
        } else {
            let index = self.target();
            self.load_narrow(index);
            self.asm.op64(alu::AND, index, 15);
            self.asm.stx(size::W, 10, -STACK, index);
            self.value(index).inputs
        };
        self.frame.stack[..4].fill(inputs);
        self.look_up(map, value_size, inputs);
    }

    /// A hash keyed by the device number, in one of several layouts.
    fn hash_lookup(&mut self) {
        if self.joins == 0 {
            return self.direct_value();
        }
        self.joins -= 1;
        let kind = self.rng.pick(&[MapKind::Hash, MapKind::Hash, MapKind::LruHash]);
        let value_size = self.rng.pick(&[4, 8, 12, 24]);
        let layout = self.rng.below(3);
        let key_size = [8, 16, 4][layout as usize];
        let entries: Vec<_> = (0..self.rng.below(8))
            .map(|_| {
                let (major, minor) = (self.rng.pick(&self.pool.clone()), self.rng.pick(&self.pool.clone()));
                let key = match layout {
                    0 => [minor.to_le_bytes(), major.to_le_bytes()].concat(),
                    1 => [7_u32, 0, major, minor].map(u32::to_le_bytes).concat(),
                    _ => minor.to_le_bytes().to_vec(),
                };
                (key, self.map_value(value_size))
            })
            .collect();
        let map = self.asm.map(MapSpec {
            kind,
            key_size,
            value_size,
            max_entries: 16,
            flags: 0,
            freeze: false,
            entries,
        });
        let inputs = self.write_key(layout);
        let key_size = usize::try_from(key_size).unwrap();
        self.frame.stack[..key_size].fill(inputs);
        self.look_up(map, value_size, inputs);
    }

    /// Puts the key at the lowest bytes of the stack.
    fn write_key(&mut self, layout: u32) -> u64 {
        let Some(ctx) = self.frame.ctx else { return 0 };
        let (a, b) = (self.target(), self.target());
        self.asm.ldx(size::W, a, ctx, 8);
        self.set(a, Value::of(MINOR));
        match layout {
            0 if a != b => {
                self.asm.ldx(size::W, b, ctx, 4);
                self.asm.op64(alu::LSH, b, 32);
                self.asm.op64r(alu::OR, b, a);
                self.asm.stx(size::DW, 10, -STACK, b);
                self.set(b, Value { inputs: MAJOR | MINOR, hard: 3 });
            }
            0 => {
                self.asm.stx(size::W, 10, -STACK, a);
                self.asm.ldx(size::W, a, ctx, 4);
                self.asm.stx(size::W, 10, -STACK + 4, a);
                self.set(a, Value::of(MAJOR));
            }
            1 => {
                self.asm.st(size::DW, 10, -STACK, 7);
                self.asm.stx(size::W, 10, -STACK + 12, a);
                self.asm.ldx(size::W, a, ctx, 4);
                self.asm.stx(size::W, 10, -STACK + 8, a);
                self.set(a, Value::of(MAJOR));
            }
            _ => self.asm.stx(size::W, 10, -STACK, a),
        }
        if layout == 2 { MINOR } else { MAJOR | MINOR }
    }

    /// Looks up the key at the lowest bytes of the stack and reads the value,
    /// or does something else where there is none.
    fn look_up(&mut self, map: usize, value_size: u32, inputs: u64) {
        self.asm.movr(2, 10);
        self.asm.op64(alu::ADD, 2, i32::from(-STACK));
        self.asm.ld_map(1, map);
        self.asm.call(helper::MAP_LOOKUP);
        self.clobber_call();
        let (missing, end) = (self.asm.label(), self.asm.label());
        self.asm.jump_if(cond::EQ, 0, 0, missing);
        let dst = self.target_but(&[0]);
        let size = self.fitting_size(value_size);
        let bytes = u32::try_from(size::bytes(size)).unwrap();
        let offset = bytes * self.rng.below(value_size / bytes);
        self.asm.ldx(size, dst, 0, i16::try_from(offset).unwrap());
        self.asm.jump(end);
        self.asm.bind(missing);
        if self.frame.depth == 0 && self.rng.chance(30) {
            let verdict = self.rng.below(2);
            self.asm.verdict(verdict as i32);
        } else {
            let other = self.constant();
            self.asm.mov(dst, other);
        }
        self.asm.bind(end);
        let value = Value::of(inputs);
        self.set(dst, if value.narrow() { value } else { Value { hard: 1, ..value } });
    }
}
