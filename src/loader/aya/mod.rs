//! Loads objects with aya, the engine of a plain build. System calls of
//! [`crate::sys`] do what aya 0.14 does not know: probes of many functions with one link,
//! iterators over cgroups, maps without types.

mod loaded;
mod many;
mod types;

use std::cell::{OnceCell, RefCell};
use std::thread;

use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};
use nix::errno::Errno;
use self_cell::self_cell;

use super::error::one_line;
use super::{LoadError, Loaded, Loader, ObjectSpec};
use crate::sys::caps::Capabilities;
use crate::sys::caps::Capability::{Bpf, SysAdmin};
use crate::sys::seccomp::without_files;
use loaded::Programs;
use many::Prepared;

/// Why no object can be used where the kernel did not answer what it can do.
const ASKED_IN_VAIN: &str = "the kernel did not answer what BPF can do here (too little memory, a signal, or a filter of calls); start gpumap again";

/// Why no object can be used without rights.
const NO_RIGHT: &str = "gpumap has neither CAP_SYS_ADMIN nor CAP_BPF and CAP_PERFMON";

/// How often a program is loaded whose loading a signal or a shortage of the moment
/// kept from its end.
const TRIES: usize = 4;

type BorrowingLoader<'a> = RefCell<EbpfLoader<'a>>;

self_cell! {
    /// The types, and the loader that borrows them.
    struct Shared {
        owner: Btf,
        #[not_covariant]
        dependent: BorrowingLoader,
    }
}

/// The types of the running kernel, and a loader that knows them.
pub(super) struct KernelTypes {
    types: Shared,
    /// All types, read when the few that `bpf/` needs were not enough.
    whole: OnceCell<Result<Shared, LoadError>>,
}

impl KernelTypes {
    /// Reads the types that `bpf/` needs, or all if that is not possible.
    pub(super) fn read() -> Result<Self, LoadError> {
        let types = types::needed().map_or_else(whole, |types| Ok(share(types)))?;
        Ok(Self { types, whole: OnceCell::new() })
    }
}

impl Loader for KernelTypes {
    fn load(&self, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let refused = match load(&self.types, wanted) {
            Ok(loaded) => return Ok(loaded),
            // More types give no right. All of them take some 20 MiB.
            Err(forbidden @ LoadError::Forbidden(_)) => return Err(forbidden),
            Err(refused) => refused,
        };
        // aya asks once for the features of the kernel, and takes every failure for "no".
        // A kernel that describes its types has this one.
        if aya::features().btf().is_none() {
            let may = Capabilities::effective().is_none_or(|held| held.has(Bpf) || held.has(SysAdmin));
            return Err(if may {
                LoadError::Refused(ASKED_IN_VAIN.to_owned())
            } else {
                LoadError::Forbidden(NO_RIGHT.to_owned())
            });
        }
        match self.whole.get_or_init(whole) {
            Ok(types) => load(types, wanted),
            Err(_) => Err(refused),
        }
    }
}

/// A loader that knows these types. aya reads all types of the kernel for each new one,
/// whatever it is given later, which takes some 35 ms. It does without them where it
/// cannot open their file.
///
/// The verifier's log has its conclusion alone. aya asks for a log of each program that is
/// refused; one of every instruction is over 16 MiB, and takes aya minutes to give up.
fn share(types: Btf) -> Shared {
    let loader: EbpfLoader<'static> = without_files(EbpfLoader::new);
    Shared::new(types, move |types| {
        let mut loader = loader;
        loader.btf(Some(types)).verifier_log_level(VerifierLogLevel::STATS);
        RefCell::new(loader)
    })
}

/// All types of the kernel.
fn whole() -> Result<Shared, LoadError> {
    Btf::from_sys_fs().map(share).map_err(|error| LoadError::NoTypes(one_line(&error)))
}

/// Two objects are relocated at the same time and then loaded at the same time: the
/// kernel's verifier takes its time for the session program.
fn load(types: &Shared, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError> {
    let known = types.borrow_owner();
    let prepare = || Prepared::new(wanted, known);
    let (ebpf, prepared) = both(|| relocate(types, wanted), prepare);
    let (mut ebpf, prepared) = (ebpf?, prepared?);
    let Some(prepared) = prepared else {
        load_programs(&mut ebpf, known, wanted)?;
        return Ok(Box::new(Programs::new(ebpf, Vec::new())));
    };
    let prepared = prepared.with_maps(&ebpf)?;
    let (loaded, many) = both(|| load_programs(&mut ebpf, known, wanted), || prepared.load());
    loaded?;
    Ok(Box::new(Programs::new(ebpf, many?)))
}

/// Makes the maps and puts the offsets of the kernel's fields into the programs.
fn relocate(types: &Shared, wanted: &ObjectSpec<'_>) -> Result<Ebpf, LoadError> {
    types.with_dependent(|_, loader| {
        let mut loader = loader.borrow_mut();
        if let Some((map, capacity)) = wanted.capacity {
            loader.map_max_entries(map, capacity);
        }
        loader.load(wanted.object.code).map_err(|error| LoadError::refused(&error))
    })
}

/// Does one thing here and another in a second thread.
fn both<A, B: Send>(here: impl FnOnce() -> A, beside: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let beside = scope.spawn(beside);
        (here(), beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Loads the wanted programs.
fn load_programs(ebpf: &mut Ebpf, types: &Btf, wanted: &ObjectSpec<'_>) -> Result<(), LoadError> {
    for (name, program) in ebpf.programs_mut().filter(|(name, _)| !wanted.left_out.contains(name)) {
        let iterator = wanted.object.iterators.iter().find(|(iterator, _)| *iterator == name);
        let function = wanted.object.functions.iter().find(|(program, _)| *program == name);
        let loaded = again_if_interrupted(|| match program {
            Program::UProbe(program) => program.load(),
            Program::RawTracePoint(program) => program.load(),
            Program::Iter(program) => program.load(iterator.map_or("", |(_, over)| over), types),
            Program::FExit(program) => program.load(function.map_or("", |(_, function)| function), types),
            Program::KProbe(program) => program.load(),
            _ => Ok(()),
        });
        let is_optional = wanted.optional.contains(&name);
        loaded.or_else(|error| if is_optional { Ok(()) } else { Err(LoadError::refused(&error)) })?;
    }
    Ok(())
}

/// Loads a program again where the kernel broke off for a signal or for a shortage that
/// passes, a few times at most.
fn again_if_interrupted(mut load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    let is_passing = |error: &ProgramError| match error {
        ProgramError::LoadError { io_error, .. } => {
            matches!(io_error.raw_os_error().map(Errno::from_raw), Some(Errno::EINTR | Errno::EAGAIN))
        }
        _ => false,
    };
    let mut loaded = load();
    for _ in 1..TRIES {
        match &loaded {
            Err(error) if is_passing(error) => loaded = load(),
            _ => break,
        }
    }
    loaded
}
