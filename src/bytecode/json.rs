//! Programs as `bpftool -j prog dump xlated` prints them.

use serde::Deserialize;

use super::Insn;
use super::error::{Place, ReadError, shown};
use super::hex::{HexByte, is_tag};
use super::saved::SavedProgram;

/// Reads one program (an array of instructions) or several (an array of
/// objects with `insns`), as bpftool prints them when more than one matches.
pub(super) fn read(content: &str) -> Result<Vec<SavedProgram>, ReadError> {
    let is_array = content.trim_start().starts_with('[');
    let elements = if is_array { parse(content)? } else { vec![parse::<Element>(content)?] };
    if elements.first().is_some_and(|first| first.schema.is_some()) {
        return Err(ReadError::Observation);
    }
    if elements.iter().any(|element| element.insns.is_some()) {
        return elements.into_iter().enumerate().map(wrapped).collect();
    }
    Ok(vec![listed(SavedProgram::default(), &elements)?])
}

/// Anything that bpftool puts into its array: an instruction, a program, or an
/// error.
#[derive(Deserialize)]
struct Element {
    disasm: Option<String>,
    opcodes: Option<Opcodes>,
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

fn parse<'a, T: Deserialize<'a>>(content: &'a str) -> Result<T, ReadError> {
    serde_json::from_str(content).map_err(|error| ReadError::Json(shown(&error.to_string())))
}

fn wrapped((index, element): (usize, Element)) -> Result<SavedProgram, ReadError> {
    let place = Place::Element(index + 1);
    refused(&element, place)?;
    if let Some(kind) = element.kind.filter(|kind| kind != "cgroup_device") {
        return Err(ReadError::Kind { place, kind: shown(&kind) });
    }
    let program = SavedProgram {
        id: element.id,
        name: element.name.unwrap_or_default(),
        tag: element.tag.filter(|tag| is_tag(tag)).unwrap_or_default(),
        gpl_compatible: element.gpl_compatible.unwrap_or_default(),
        ..SavedProgram::default()
    };
    listed(program, &element.insns.unwrap_or_default())
}

fn listed(mut program: SavedProgram, elements: &[Element]) -> Result<SavedProgram, ReadError> {
    for (index, element) in elements.iter().enumerate() {
        let place = Place::Element(index + 1);
        refused(element, place)?;
        let expected = "an instruction (it has no `disasm`); save `bpftool -j prog dump xlated id N opcodes`";
        let missing = || ReadError::Unknown { place, found: "{…}".to_owned(), expected };
        let text = element.disasm.as_deref().ok_or_else(missing)?;
        let slots = element.opcodes.as_ref().map(|opcodes| opcodes.slots(place)).transpose()?;
        program.push(text, slots.as_deref(), place)?;
    }
    program.finish()
}

fn refused(element: &Element, place: Place) -> Result<(), ReadError> {
    match &element.error {
        Some(error) => Err(ReadError::Refused { place, message: shown(error) }),
        None => Ok(()),
    }
}

impl Opcodes {
    /// The slots: a 64-bit load has the whole second slot behind its
    /// immediate.
    fn slots(&self, place: Place) -> Result<Vec<Insn>, ReadError> {
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
