//! Loads the session program: aya relocates it, [`crate::sys::bpf`] loads and
//! attaches it, because aya 0.14 does not know session probes.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya::maps::Map;
use aya::{Btf, Ebpf};
use aya_obj::generated::bpf_insn;

use crate::loader::objects::Object;
use crate::loader::{FunctionEntry, LoadError};
use crate::sys::bpf::{attach_session, has_sessions, load_session};

/// The loaded program.
pub(super) struct SessionProgram(OwnedFd);

/// The program with the offsets of this kernel's fields, not loaded yet.
pub(super) struct Prepared {
    object: aya_obj::Object,
    program: &'static str,
}

impl Prepared {
    /// Reads the object and puts the offsets of the kernel's fields into it.
    ///
    /// # Errors
    ///
    /// What the kernel's types lack.
    pub(super) fn new(wanted: &Object, types: &Btf) -> Result<Self, LoadError> {
        let mut object = aya_obj::Object::parse(wanted.code).map_err(|error| LoadError::refused(&error))?;
        object.relocate_btf(types).map_err(|error| LoadError::refused(&error))?;
        Ok(Self { object, program: wanted.session })
    }

    /// Puts the descriptors of the maps of `ebpf` into its instructions.
    ///
    /// # Errors
    ///
    /// A map that is not there: a fault of the build.
    pub(super) fn with_maps(mut self, ebpf: &Ebpf) -> Result<Self, LoadError> {
        let object = &mut self.object;
        let maps = object.maps.clone();
        let known = maps.iter().filter_map(|(name, map)| {
            let descriptor = descriptor(ebpf.map(name)?)?;
            Some((name.as_str(), descriptor.as_raw_fd(), map))
        });
        let code: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        object.relocate_maps(known, &code).map_err(|error| LoadError::refused(&error))?;
        Ok(self)
    }

    /// Loads it.
    ///
    /// # Errors
    ///
    /// Why it cannot be used: a kernel before 6.13, or a missing right.
    pub(super) fn load(&self) -> Result<SessionProgram, LoadError> {
        let Self { object, program: name } = self;
        let program = object.programs.get(*name).ok_or(LoadError::Missing(name))?;
        let code = object.functions.get(&program.function_key()).ok_or(LoadError::Missing(name))?;
        let code: Vec<[u8; 8]> = code.instructions.iter().map(bytes).collect();
        let program = load_session(name, &object.license, &code);
        let program = program.map_err(|error| LoadError::refused(&error))?;
        if !has_sessions(program.as_fd()) {
            return Err(LoadError::Refused("no session probes".to_owned()));
        }
        Ok(SessionProgram(program))
    }
}

impl SessionProgram {
    /// Attaches it to functions of a file, in every process or in one. The
    /// link ends with the descriptor.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub(super) fn attach(
        &self,
        file: &Path,
        entries: &[FunctionEntry],
        pid: Option<u32>,
    ) -> Result<OwnedFd, LoadError> {
        let file = CString::new(file.as_os_str().as_bytes()).map_err(|error| LoadError::refused(&error))?;
        attach_session(self.0.as_fd(), &file, entries, pid).map_err(|error| LoadError::refused(&error))
    }
}

/// An instruction as the kernel takes it (`struct bpf_insn`).
fn bytes(instruction: &bpf_insn) -> [u8; 8] {
    let registers = instruction.dst_reg() | instruction.src_reg() << 4;
    let [low, high] = instruction.off.to_le_bytes();
    let [a, b, c, d] = instruction.imm.to_le_bytes();
    [instruction.code, registers, low, high, a, b, c, d]
}

/// The descriptor of a map of one of the types that `bpf/` has.
pub(super) fn descriptor(map: &Map) -> Option<BorrowedFd<'_>> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Some(data.fd().as_fd()),
        _ => None,
    }
}
