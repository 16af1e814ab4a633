//! Listings as `bpftool prog dump xlated` prints them, also as pasted from a
//! mail.
//!
//! Around the instructions anything may stand; between them only what bpftool
//! itself puts there. A line that was lost, wrapped or edited is an error, not
//! a different program.

use super::error::{Position, ReadError, shown};
use super::line::{Header, Line, recognise};
use super::saved::SavedProgram;

/// Reads every program of a listing.
pub(super) fn read(content: &str) -> Result<Vec<SavedProgram>, ReadError> {
    let mut listing = Listing::default();
    for (index, line) in content.lines().enumerate() {
        listing.add(recognise(line), Position::Line(index + 1))?;
    }
    listing.finish()
}

#[derive(Default)]
struct Listing<'a> {
    done: Vec<SavedProgram>,
    /// The headers that stood before programs, in their order.
    headers: Vec<Announced<'a>>,
    /// The id that the last command asked for.
    asked: Option<u32>,
    current: SavedProgram,
    /// The last instruction, whose opcode bytes may be on the next line.
    open: Option<(&'a str, Position)>,
    /// Text that followed instructions. It is an error if more instructions follow.
    prose: Option<(&'a str, Position)>,
    refused: Option<ReadError>,
}

/// A program that `bpftool prog show` described.
struct Announced<'a> {
    header: Header<'a>,
    place: Position,
    xlated: Option<usize>,
    map_ids: Vec<u32>,
}

impl<'a> Listing<'a> {
    fn add(&mut self, line: Line<'a>, place: Position) -> Result<(), ReadError> {
        if let Line::Bytes(slots) = line {
            let (text, line) = self.open.take().ok_or_else(|| stray_bytes(place))?;
            return self.current.push(text, Some(&slots), line);
        }
        // A mail may double the line ends: blank lines keep the instruction open.
        if line == Line::Skip {
            return Ok(());
        }
        self.close()?;
        match line {
            Line::Insn { pc, text } => self.open(pc, text, place)?,
            Line::Header(header) => self.announce(header, place)?,
            Line::Command { id } => self.expect(id)?,
            Line::Size { xlated, map_ids } => self.describe(xlated, map_ids),
            Line::Error(message) => self.refuse(message, place),
            Line::Broken(text) => return Err(broken(text, place)),
            Line::Prose(text) if !self.current.insns.is_empty() => {
                self.prose = self.prose.or(Some((text, place)))
            }
            Line::Prose(_) | Line::Skip | Line::Bytes(_) => {}
        }
        Ok(())
    }

    fn open(&mut self, pc: usize, text: &'a str, place: Position) -> Result<(), ReadError> {
        if let Some((prose, place)) = self.prose {
            let expected = "an instruction; delete the line, or give each program a file of its own";
            return Err(ReadError::Unknown { place, found: shown(prose), expected });
        }
        let expected = self.current.insns.len();
        if pc != expected {
            return Err(ReadError::Order { place, found: pc, expected });
        }
        self.open = Some((text, place));
        Ok(())
    }

    /// Ends an instruction that has no bytes below it.
    fn close(&mut self) -> Result<(), ReadError> {
        match self.open.take() {
            Some((text, place)) => self.current.push(text, None, place),
            None => Ok(()),
        }
    }

    fn announce(&mut self, header: Header<'a>, place: Position) -> Result<(), ReadError> {
        self.end_program()?;
        self.headers.push(Announced { header, place, xlated: None, map_ids: Vec::new() });
        Ok(())
    }

    fn expect(&mut self, id: Option<u32>) -> Result<(), ReadError> {
        self.end_program()?;
        self.asked = id;
        Ok(())
    }

    fn describe(&mut self, xlated: usize, map_ids: Vec<u32>) {
        if let Some(last) = self.headers.last_mut() {
            last.xlated = Some(xlated);
            last.map_ids = map_ids;
        }
    }

    fn refuse(&mut self, message: &str, place: Position) {
        let refused = ReadError::Refused { place, message: shown(message) };
        self.refused.get_or_insert(refused);
    }

    /// Puts the current program, if there is one, with those that are done.
    fn end_program(&mut self) -> Result<(), ReadError> {
        self.prose = None;
        if self.current.insns.is_empty() {
            return Ok(());
        }
        let announced = self.announced();
        let mut program = std::mem::take(&mut self.current);
        program.id = self.asked;
        if let Some(announced) = announced {
            announced.describe(&mut program)?;
        }
        self.done.push(program.finish()?);
        Ok(())
    }

    /// The header of the current program: the one with the id that was asked for,
    /// else the one right before it. Takes all headers away, so that the next program
    /// does not get the same one.
    fn announced(&mut self) -> Option<Announced<'a>> {
        let headers = std::mem::take(&mut self.headers);
        let mut fitting = headers.into_iter().rev();
        match self.asked {
            Some(id) => fitting.find(|announced| announced.header.id == id),
            None => fitting.next(),
        }
    }

    fn finish(mut self) -> Result<Vec<SavedProgram>, ReadError> {
        self.close()?;
        self.end_program()?;
        match (self.done.is_empty(), self.refused) {
            (_, Some(refused)) => Err(refused),
            (true, None) => Err(ReadError::NoInstructions),
            (false, None) => Ok(self.done),
        }
    }
}

impl Announced<'_> {
    fn describe(self, program: &mut SavedProgram) -> Result<(), ReadError> {
        if self.header.kind != "cgroup_device" {
            return Err(ReadError::Kind { place: self.place, kind: shown(self.header.kind) });
        }
        let found = program.insns.len() * 8;
        if let Some(expected) = self.xlated.filter(|xlated| *xlated != found) {
            return Err(ReadError::Count { expected, found });
        }
        program.id = Some(self.header.id);
        program.name = self.header.name.to_owned();
        program.tag = self.header.tag.to_owned();
        program.gpl_compatible = self.header.gpl;
        program.map_ids = self.map_ids;
        Ok(())
    }
}

fn broken(text: &str, place: Position) -> ReadError {
    let expected = "an instruction such as `9: (b7) r0 = 1`; copy the line whole";
    ReadError::Unknown { place, found: shown(text), expected }
}

fn stray_bytes(place: Position) -> ReadError {
    let expected = "below an instruction; opcode bytes follow the line they belong to";
    ReadError::Unknown { place, found: "opcode bytes".to_owned(), expected }
}
