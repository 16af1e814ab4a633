//! The session program: relocated against the kernel's types and the maps of
//! the object that is loaded already, then loaded and attached by
//! [`crate::sys::bpf`]. The loader of that object knows no sessions.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya::maps::Map;
use aya::{Btf, Ebpf};
use aya_obj::Object;
use aya_obj::generated::bpf_insn;

use super::object::chain;
use crate::sys::bpf::{Entry, attach_session, has_sessions, load_session};
use crate::watch::WatchError;

/// Compiled from `bpf/session.bpf.c`, and the program in it.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/session.bpf.o");
const PROGRAM: &str = "session_environ";

/// The loaded program.
#[derive(Debug)]
pub(super) struct Session(OwnedFd);

/// The program, made ready for this kernel and not loaded yet.
pub(super) struct Prepared(Object);

impl Prepared {
    /// Reads the program and puts the places of the kernel's fields into it.
    ///
    /// # Errors
    ///
    /// What the kernel's types lack.
    pub(super) fn new(btf: &Btf) -> Result<Self, WatchError> {
        let mut object = Object::parse(OBJECT).map_err(|error| refused(&error))?;
        object.relocate_btf(btf).map_err(|error| refused(&error))?;
        Ok(Self(object))
    }

    /// Gives it the maps of `ebpf`.
    ///
    /// # Errors
    ///
    /// A map that is not there: a fault of the build.
    pub(super) fn with_maps(mut self, ebpf: &Ebpf) -> Result<Self, WatchError> {
        relocate_maps(&mut self.0, ebpf)?;
        Ok(self)
    }

    /// Loads it.
    ///
    /// # Errors
    ///
    /// Why it cannot be used: a kernel before 6.13, or a missing right.
    pub(super) fn load(&self) -> Result<Session, WatchError> {
        let object = &self.0;
        let program = object.programs.get(PROGRAM).ok_or(WatchError::Object(PROGRAM))?;
        let code = object.functions.get(&program.function_key()).ok_or(WatchError::Object(PROGRAM))?;
        let code: Vec<[u8; 8]> = code.instructions.iter().map(bytes).collect();
        let program = load_session(PROGRAM, &object.license, &code).map_err(|error| refused(&error))?;
        if !has_sessions(program.as_fd()) {
            return Err(WatchError::Load("no session probes".to_owned()));
        }
        Ok(Session(program))
    }
}

fn refused(error: &dyn std::error::Error) -> WatchError {
    WatchError::Load(chain(error))
}

impl Session {
    /// Attaches it to functions of a file, in every process or in one. The
    /// link ends with the descriptor.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub(super) fn attach(
        &self,
        file: &Path,
        entries: &[Entry],
        pid: Option<u32>,
    ) -> Result<OwnedFd, WatchError> {
        let failed = |why: String| WatchError::Attach("the environment".to_owned(), why);
        let file = CString::new(file.as_os_str().as_bytes()).map_err(|error| failed(chain(&error)))?;
        attach_session(self.0.as_fd(), &file, entries, pid).map_err(|error| failed(chain(&error)))
    }
}

/// Puts the descriptors of `ebpf`'s maps into the instructions.
fn relocate_maps(object: &mut Object, ebpf: &Ebpf) -> Result<(), WatchError> {
    let maps = object.maps.clone();
    let known =
        maps.iter().filter_map(|(name, map)| Some((name.as_str(), descriptor(ebpf.map(name)?)?, map)));
    let code: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_maps(known, &code).map_err(|error| WatchError::Load(chain(&error)))
}

/// The descriptor of a map of one of the types that `bpf/` has.
fn descriptor(map: &Map) -> Option<RawFd> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Some(data.fd().as_fd().as_raw_fd()),
        _ => None,
    }
}

/// An instruction as the kernel takes it (`struct bpf_insn`).
fn bytes(instruction: &bpf_insn) -> [u8; 8] {
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    let [low, high] = instruction.off.to_le_bytes();
    let [a, b, c, d] = instruction.imm.to_le_bytes();
    [instruction.code, registers, low, high, a, b, c, d]
}
