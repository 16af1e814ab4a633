//! Explains what an instruction computes in terms of the question: `r4 = major`.

use crate::bytecode::{Comparison, Operand, Operation};

use super::code::Code;
use super::diagram::Bdd;
use super::inputs::{Symbols, context_words};
use super::state::REGISTERS;
use super::value::{Base, Value};
use super::word::Word;
use crate::model::Request;

/// Names what registers hold.
#[derive(Debug)]
pub struct Annotation<'a> {
    code: &'a Code<'a>,
    /// The fields of the question, by name.
    fields: Vec<(&'static str, Word)>,
    /// The one question asked, if only one is.
    question: Option<u64>,
}

impl<'a> Annotation<'a> {
    /// For one question, or for all of them.
    pub fn new(code: &'a Code<'a>, symbols: &mut Symbols, question: Option<u64>) -> Self {
        let [access_type, major, minor] = context_words(&mut symbols.diagram);
        let kind = access_type.zero_extended(16);
        let request = access_type.shr(&Word::Constant(16), 6, &mut symbols.diagram);
        let fields = vec![
            ("major", major),
            ("minor", minor),
            ("type", kind),
            ("request", request),
            ("request and type", access_type),
        ];
        Self { code, fields, question }
    }

    /// Explains what `operation` does, from the registers before it and, if it is
    /// known, its result. Empty if the disassembly says as much.
    pub fn of(
        &self,
        operation: &Operation,
        before: &[Value; REGISTERS],
        after: Option<&Value>,
        taken: Option<bool>,
        symbols: &Symbols,
    ) -> String {
        match *operation {
            Operation::Branch { comparison, dst, source, target, .. } => {
                let (_, target) = self.code.links.place(target);
                let right = match source {
                    Operand::Register(register) => self.value(&before[register], symbols),
                    Operand::Immediate(value) => Some(number(value)),
                };
                let (Some(left), Some(right)) = (self.value(&before[dst], symbols), right) else {
                    return outcome(taken, target);
                };
                let (left, right) = (in_brackets(left), in_brackets(right));
                format!("{left} {} {right}{}", sign(comparison), outcome(taken, target))
            }
            Operation::CallHelper { helper } => self.call(helper, before, after, symbols),
            Operation::Exit => match (&before[0], self.question) {
                (Value::Scalar(word), _) if word.as_constant() == Some(0) => "denies".into(),
                (Value::Scalar(Word::Constant(_)), _) => "allows".into(),
                (value, Some(_)) => match self.known(value, symbols) {
                    Some(0) => "denies".into(),
                    Some(_) => "allows".into(),
                    None => String::new(),
                },
                _ => String::new(),
            },
            _ => {
                let (Some(dst), Some(after)) = (written(operation), after) else { return String::new() };
                match (after, self.value(after, symbols)) {
                    (Value::Scalar(Word::Constant(_)), _) | (_, None) => String::new(),
                    (_, Some(text)) => format!("r{dst} = {text}"),
                }
            }
        }
    }

    fn call(
        &self,
        helper: i32,
        before: &[Value; REGISTERS],
        after: Option<&Value>,
        symbols: &Symbols,
    ) -> String {
        let name = self.code.symbol(helper).unwrap_or_default();
        let result = after.and_then(|value| self.value(value, symbols));
        match (&before[1], result) {
            (Value::Pointer(pointer), Some(result)) if matches!(pointer.base, Base::MapObject(_)) => {
                format!("r0 = {result}")
            }
            (argument, _) if name == "bpf_set_retval" => match self.value(argument, symbols) {
                Some(value) => format!("sets the error to {value}"),
                None => "sets the error".into(),
            },
            (_, Some(result)) => format!("r0 = {result}"),
            _ => String::new(),
        }
    }

    /// A value in words; `None` if there is nothing short to say.
    fn value(&self, value: &Value, symbols: &Symbols) -> Option<String> {
        match value {
            Value::Scalar(word) => self.word(word, symbols),
            Value::Pointer(pointer) => Some(match &pointer.base {
                Base::Context => "the question".into(),
                Base::Stack(_) => match pointer.offset.as_constant() {
                    Some(0) | None => "the stack".into(),
                    Some(offset) => format!("the stack{:+}", offset as i64),
                },
                Base::MapObject(map) => format!("map {}", self.code.maps[*map].id),
                Base::HashElement(selection) | Base::PerCpuSlot(selection) | Base::InnerSlot(selection) => {
                    format!("an entry of map {}", self.code.maps[selection.map].id)
                }
                Base::MapValue(selection) => format!("a value of map {}", self.code.maps[selection.map].id),
                Base::Array(map) | Base::PerCpuSlots(map) | Base::InnerSlots(map) => {
                    format!("a value of map {}", self.code.maps[*map].id)
                }
                Base::Scratch => "a record".into(),
                Base::Subprogram(_) => "a function of the program".into(),
                Base::Bytes(_) => "a key".into(),
            }),
            Value::Choice(alternatives) => match self.question {
                Some(bits) => {
                    let holds = |guard: Bdd| symbols.diagram.evaluate(guard, bits) == Some(true);
                    let here = alternatives.iter().find(|(guard, _)| holds(*guard))?;
                    match &here.1 {
                        Value::Scalar(word) if word.as_constant() == Some(0) => {
                            Some("null, no such entry".into())
                        }
                        value => self.value(value, symbols),
                    }
                }
                None => {
                    let mut parts: Vec<String> =
                        alternatives.iter().filter_map(|(_, value)| self.value(value, symbols)).collect();
                    parts.iter_mut().filter(|part| *part == "0").for_each(|part| *part = "null".into());
                    (parts.len() == alternatives.len()).then(|| parts.join(" or "))
                }
            },
            Value::Unset => None,
        }
    }

    fn word(&self, word: &Word, symbols: &Symbols) -> Option<String> {
        if let Some(constant) = word.as_constant() {
            return Some(number(constant));
        }
        let name = self.fields.iter().find_map(|(name, field)| derived(name, word, field));
        let value = self.known_word(word, symbols);
        match (name, value) {
            (Some(name), Some(value)) => Some(format!("{name} = {}", self.spelled(&name, value))),
            (Some(name), None) => Some(name),
            (None, Some(value)) => Some(number(value)),
            (None, None) => None,
        }
    }

    fn spelled(&self, name: &str, value: u64) -> String {
        match (name, value) {
            ("type", 1) => "1, block".into(),
            ("type", 2) => "2, char".into(),
            ("request", value) => {
                let request = Request::ALL.into_iter().find(|request| u64::from(request.bits()) == value);
                request.map_or_else(|| number(value), |request| format!("{value}, {}", request.letters()))
            }
            (_, value) => number(value),
        }
    }

    fn known(&self, value: &Value, symbols: &Symbols) -> Option<u64> {
        match value {
            Value::Scalar(word) => self.known_word(word, symbols),
            _ => None,
        }
    }

    /// The word's value for the question asked.
    fn known_word(&self, word: &Word, symbols: &Symbols) -> Option<u64> {
        let question = self.question?;
        word.bits().iter().enumerate().try_fold(0, |value, (place, bit)| {
            symbols.diagram.evaluate(*bit, question).map(|bit| value | u64::from(bit) << place)
        })
    }
}

/// `word` as `field`, some of its bits, or `field` shifted.
fn derived(name: &str, word: &Word, field: &Word) -> Option<String> {
    if word == field {
        return Some(name.to_owned());
    }
    let (bits, of) = (word.bits(), field.bits());
    let part = |bit: &Bdd, from: &Bdd| bit == from || *bit == Bdd::FALSE;
    if bits.iter().zip(&of).all(|(bit, from)| part(bit, from)) {
        let mask = bits.iter().zip(&of).enumerate();
        let mask = mask.fold(0u64, |mask, (place, (bit, from))| {
            mask | u64::from(bit == from && *bit != Bdd::FALSE) << place
        });
        return Some(format!("{name} & {mask:#x}"));
    }
    (1..64)
        .find(|by| bits[..*by].iter().all(|bit| *bit == Bdd::FALSE) && bits[*by..] == of[..64 - by])
        .map(|by| format!("{name} << {by}"))
}

/// A number as people write it: small negative ones with a sign.
fn number(value: u64) -> String {
    match value as i64 {
        signed @ -4096..=65535 => signed.to_string(),
        _ => format!("{value:#x}"),
    }
}

/// Turns `major = 195` into `major (195)`, for use inside a comparison.
fn in_brackets(text: String) -> String {
    text.split_once(" = ").map_or(text.clone(), |(name, value)| format!("{name} ({value})"))
}

fn outcome(taken: Option<bool>, target: usize) -> String {
    match taken {
        Some(true) => format!("? yes, to {target}"),
        Some(false) => "? no".into(),
        None => String::new(),
    }
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Greater | Comparison::SignedGreater => ">",
        Comparison::GreaterEqual | Comparison::SignedGreaterEqual => ">=",
        Comparison::Less | Comparison::SignedLess => "<",
        Comparison::LessEqual | Comparison::SignedLessEqual => "<=",
        Comparison::AnyBit => "has a bit of",
    }
}

/// The register an operation writes.
pub fn written(operation: &Operation) -> Option<usize> {
    match *operation {
        Operation::Arithmetic { dst, .. }
        | Operation::Unclear { dst, .. }
        | Operation::SwapBytes { dst, .. }
        | Operation::LoadConstant { dst, .. }
        | Operation::LoadMap { dst, .. }
        | Operation::LoadMapValue { dst, .. }
        | Operation::LoadSubprogram { dst, .. }
        | Operation::LoadUnknown { dst }
        | Operation::Load { dst, .. } => Some(dst),
        Operation::Atomic { fetches, .. } => fetches,
        Operation::CallHelper { .. } | Operation::CallLocal { .. } | Operation::CallKernel { .. } => Some(0),
        Operation::Store { .. }
        | Operation::Jump { .. }
        | Operation::Branch { .. }
        | Operation::Exit
        | Operation::Nothing
        | Operation::Unsupported { .. } => None,
    }
}
