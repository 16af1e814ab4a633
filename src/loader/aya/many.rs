//! Loads programs that run at many functions with one link: aya relocates them,
//! [`crate::sys::bpf`] loads and attaches them, because aya 0.14 does not know such links.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya::maps::Map;
use aya::{Btf, Ebpf};
use aya_obj::ProgramSection;
use aya_obj::generated::bpf_insn;

use crate::loader::interface::Object;
use crate::loader::{FunctionEntry, LoadError, ObjectSpec};
use crate::sys::bpf::{FunctionType, ManyProbes, attach_many, load_many, load_types};

/// A loaded program.
pub(super) struct ManyProgram {
    /// Its name in the object.
    pub(super) name: &'static str,
    probes: ManyProbes,
    program: OwnedFd,
}

/// Programs with the offsets of this kernel's fields, not loaded yet.
pub(super) struct Prepared {
    object: aya_obj::Object,
    programs: Vec<&'static str>,
    /// Whether each serves entries and returns.
    sessions: bool,
    /// The types of the object, where the kernel takes them.
    types: Option<OwnedFd>,
}

impl Prepared {
    /// Reads what is wanted of such programs, and puts the offsets of the kernel's fields
    /// into them. `None`: there are none.
    ///
    /// # Errors
    ///
    /// What the kernel's types lack.
    pub(super) fn new(wanted: &ObjectSpec<'_>, types: &Btf) -> Result<Option<Self>, LoadError> {
        match (wanted.session, wanted.multi) {
            (Some(object), _) => Self::of(object, vec![object.session], true, types).map(Some),
            (None, []) => Ok(None),
            (None, multi) => Self::of(wanted.object, multi.to_vec(), false, types).map(Some),
        }
    }

    fn of(
        wanted: &Object,
        programs: Vec<&'static str>,
        sessions: bool,
        types: &Btf,
    ) -> Result<Self, LoadError> {
        let mut object = aya_obj::Object::parse(wanted.code).map_err(|error| LoadError::refused(&error))?;
        object.relocate_btf(types).map_err(|error| LoadError::refused(&error))?;
        let types = described(&mut object);
        Ok(Self { object, programs, sessions, types })
    }

    /// Puts the descriptors of the maps of `ebpf` into their instructions.
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
        object.relocate_calls(&code).map_err(|error| LoadError::refused(&error))?;
        Ok(self)
    }

    /// Loads them.
    ///
    /// # Errors
    ///
    /// Why one cannot be used: a kernel that is too old for its kind of link, or a
    /// missing right.
    pub(super) fn load(&self) -> Result<Vec<ManyProgram>, LoadError> {
        self.programs.iter().map(|name| self.load_one(name)).collect()
    }

    fn load_one(&self, name: &'static str) -> Result<ManyProgram, LoadError> {
        let object = &self.object;
        let program = object.programs.get(name).ok_or(LoadError::Missing(name))?;
        let code = object.functions.get(&program.function_key()).ok_or(LoadError::Missing(name))?;
        let functions = code.func_info.func_info.iter();
        let functions: Vec<FunctionType> = functions
            .map(|function| FunctionType { instruction: function.insn_off, kind: function.type_id })
            .collect();
        let described = self.types.as_ref().map(|types| (types.as_fd(), &functions[..]));
        let code: Vec<[u8; 8]> = code.instructions.iter().map(bytes).collect();
        let probes = match (self.sessions, &program.section) {
            (true, _) => ManyProbes::Sessions,
            (false, ProgramSection::URetProbe { .. }) => ManyProbes::Returns,
            (false, _) => ManyProbes::Entries,
        };
        let program = load_many(name, probes, &object.license, &code, described);
        let program = program.map_err(|error| LoadError::refused(&error))?;
        Ok(ManyProgram { name, probes, program })
    }
}

impl ManyProgram {
    /// Whether it serves entries and returns.
    pub(super) fn is_session(&self) -> bool {
        self.probes == ManyProbes::Sessions
    }

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
        let link = attach_many(self.program.as_fd(), self.probes, &file, entries, pid);
        link.map_err(|error| LoadError::refused(&error))
    }
}

/// Loads the types of an object. `None`: this kernel has no types of global functions, so
/// that the programs load without.
fn described(object: &mut aya_obj::Object) -> Option<OwnedFd> {
    let features = aya::features().btf().filter(|features| features.btf_func_global())?;
    let types = object.fixup_and_sanitize_btf(features).ok().flatten()?;
    load_types(&types.to_bytes()).ok()
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
