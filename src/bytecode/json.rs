//! Programs as `bpftool -j prog dump xlated` prints them.

use serde::Deserialize;

use super::Insn;
use super::error::{Position, ReadError, shown};
use super::line::{HexByte, is_tag};
use super::saved::SavedProgram;

/// Reads one program (an array of instructions) or several (an array of
/// objects with `insns`), as bpftool prints them when more than one matches.
pub(super) fn read(content: &str) -> Result<Vec<SavedProgram>, ReadError> {
    let is_array = content.trim_start().starts_with('[');
    let elements = if is_array { parse(content)? } else { vec![parse::<Element>(content)?] };
    match elements.first() {
        Some(Element::Observation) => Err(ReadError::Observation),
        Some(Element::Program(_)) => elements.into_iter().enumerate().map(wrapped).collect(),
        _ => Ok(vec![listed(SavedProgram::default(), elements)?]),
    }
}

/// One element of bpftool's array. The type is small, because a hostile file may
/// have millions of elements, and an empty element is an error, so that each one
/// costs at least some bytes of the file.
#[derive(Deserialize)]
#[serde(try_from = "Wire")]
enum Element {
    Insn { text: String, opcodes: Option<Box<Opcodes>> },
    Program(Box<Wire>),
    Failed(String),
    Observation,
}

#[derive(Deserialize)]
struct Wire {
    disasm: Option<String>,
    opcodes: Option<Box<Opcodes>>,
    error: Option<String>,
    schema: Option<String>,
    id: Option<u32>,
    #[serde(rename = "type")]
    kind: Option<String>,
    name: Option<String>,
    tag: Option<String>,
    gpl_compatible: Option<bool>,
    insns: Option<Vec<Element>>,
}

#[derive(Deserialize)]
struct Opcodes {
    code: HexByte,
    src_reg: HexByte,
    dst_reg: HexByte,
    off: [HexByte; 2],
    imm: Vec<HexByte>,
}

impl TryFrom<Wire> for Element {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        match wire {
            Wire { schema: Some(_), .. } => Ok(Self::Observation),
            Wire { error: Some(error), .. } => Ok(Self::Failed(error)),
            Wire { insns: Some(_), .. } => Ok(Self::Program(Box::new(wire))),
            Wire { disasm: Some(text), opcodes, .. } => Ok(Self::Insn { text, opcodes }),
            _ => Err("expected `disasm` or `insns`"),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(content: &'a str) -> Result<T, ReadError> {
    serde_json::from_str(content).map_err(|error| ReadError::Json(shown(&error.to_string())))
}

fn wrapped((index, element): (usize, Element)) -> Result<SavedProgram, ReadError> {
    let place = Position::Element(index + 1);
    let Element::Program(wire) = element else { return Err(misplaced(element, place)) };
    if let Some(kind) = wire.kind.filter(|kind| kind != "cgroup_device") {
        return Err(ReadError::Kind { place, kind: shown(&kind) });
    }
    let program = SavedProgram {
        id: wire.id,
        name: wire.name.unwrap_or_default(),
        tag: wire.tag.filter(|tag| is_tag(tag)).unwrap_or_default(),
        gpl_compatible: wire.gpl_compatible.unwrap_or_default(),
        ..SavedProgram::default()
    };
    listed(program, wire.insns.unwrap_or_default())
}

fn listed(mut program: SavedProgram, elements: Vec<Element>) -> Result<SavedProgram, ReadError> {
    for (index, element) in elements.into_iter().enumerate() {
        let place = Position::Element(index + 1);
        let Element::Insn { text, opcodes } = element else { return Err(misplaced(element, place)) };
        let slots = opcodes.map(|opcodes| opcodes.slots(place)).transpose()?;
        program.push(&text, slots.as_deref(), place)?;
    }
    program.finish()
}

fn misplaced(element: Element, place: Position) -> ReadError {
    let (found, expected) = match element {
        Element::Failed(error) => return ReadError::Refused { place, message: shown(&error) },
        Element::Insn { text, .. } => (shown(&text), "a program; save each program in a file of its own"),
        _ => ("{…}".to_owned(), "an instruction; save `bpftool -j prog dump xlated id N opcodes`"),
    };
    ReadError::Unknown { place, found, expected }
}

impl Opcodes {
    /// The slots: a 64-bit load has its second slot after the immediate.
    fn slots(&self, place: Position) -> Result<Vec<Insn>, ReadError> {
        let registers = (self.src_reg.0 & 15) << 4 | self.dst_reg.0 & 15;
        let first = [self.code.0, registers, self.off[0].0, self.off[1].0];
        let bytes: Vec<u8> = first.into_iter().chain(self.imm.iter().map(|byte| byte.0)).collect();
        let slots = Insn::parse_all(&bytes).unwrap_or_default();
        let expected = 1 + usize::from(slots.first().is_some_and(|insn| insn.is_wide()));
        if slots.len() == expected {
            return Ok(slots);
        }
        let found = format!("imm with {} bytes", self.imm.len());
        Err(ReadError::Unknown { place, found, expected: "4 bytes, or 12 for a 64-bit load; dump it again" })
    }
}
