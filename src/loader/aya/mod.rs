//! Loads objects with aya, the engine of a plain build. System calls of
//! [`crate::sys`] do what aya 0.14 does not know: session probes, iterators over
//! cgroups, maps without types.

mod loaded;
mod session;

use std::cell::RefCell;
use std::thread;

use aya::programs::Program;
use aya::{Btf, Ebpf, EbpfLoader};
use self_cell::self_cell;

use super::error::one_line;
use super::{LoadError, Loaded, Loader, ObjectSpec};
use loaded::Programs;
use session::Prepared;

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
pub(super) struct KernelTypes(Shared);

impl KernelTypes {
    /// Reads the types. A new aya loader has read a copy of its own, which it does
    /// not share. That loader is dropped first, so that there is only one copy at a
    /// time.
    pub(super) fn read() -> Result<Self, LoadError> {
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let types = Btf::from_sys_fs().map_err(|error| LoadError::NoTypes(one_line(&error)))?;
        Ok(Self(Shared::new(types, move |types| {
            let mut loader = loader;
            loader.btf(Some(types));
            RefCell::new(loader)
        })))
    }

    /// Makes the maps and puts the offsets of the kernel's fields into the
    /// programs.
    fn relocate(&self, wanted: &ObjectSpec<'_>) -> Result<Ebpf, LoadError> {
        self.0.with_dependent(|_, loader| {
            let mut loader = loader.borrow_mut();
            if let Some((map, capacity)) = wanted.capacity {
                loader.map_max_entries(map, capacity);
            }
            loader.load(wanted.object.code).map_err(|error| LoadError::refused(&error))
        })
    }
}

impl Loader for KernelTypes {
    /// Two objects are relocated at the same time and then loaded at the same
    /// time: the kernel's verifier takes its time for the session program.
    fn load(&self, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let types = self.0.borrow_owner();
        let prepare = || wanted.session.map(|object| Prepared::new(object, types)).transpose();
        let (ebpf, prepared) = both(|| self.relocate(wanted), prepare);
        let (mut ebpf, prepared) = (ebpf?, prepared?);
        let Some(prepared) = prepared else {
            load_programs(&mut ebpf, types, wanted)?;
            return Ok(Box::new(Programs { ebpf, session: None }));
        };
        let prepared = prepared.with_maps(&ebpf)?;
        let (loaded, session) = both(|| load_programs(&mut ebpf, types, wanted), || prepared.load());
        loaded?;
        Ok(Box::new(Programs { ebpf, session: Some(session?) }))
    }
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
        let loaded = match program {
            Program::UProbe(program) => program.load(),
            Program::RawTracePoint(program) => program.load(),
            Program::Iter(program) => {
                let over = wanted.object.iterators.iter().find(|(iterator, _)| *iterator == name);
                let (_, over) = over.ok_or(LoadError::Missing("kind of an iterator"))?;
                program.load(over, types)
            }
            _ => Ok(()),
        };
        let is_optional = wanted.optional.contains(&name);
        loaded.or_else(|error| if is_optional { Ok(()) } else { Err(LoadError::refused(&error)) })?;
    }
    Ok(())
}
