//! Loads objects with aya, the engine of a plain build. System calls of
//! [`crate::sys`] do what aya 0.14 does not know: session probes, iterators over
//! cgroups, maps without types.

mod loaded;
mod needed_types;
mod session;

use std::cell::{OnceCell, RefCell};
use std::{fs, thread};

use aya::programs::Program;
use aya::{Btf, Ebpf, EbpfLoader};
use self_cell::self_cell;

use super::error::one_line;
use super::{LoadError, Loaded, Loader, ObjectSpec};
use loaded::Programs;
use session::Prepared;

/// The kernel's description of its types.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

type BorrowingLoader<'a> = RefCell<EbpfLoader<'a>>;

self_cell! {
    /// The types, and the loader that borrows them.
    struct Shared {
        owner: Btf,
        #[not_covariant]
        dependent: BorrowingLoader,
    }
}

/// What is known of the types of the running kernel: all of them, once an object needed
/// all.
#[derive(Default)]
pub(super) struct KernelTypes(OnceCell<Shared>);

impl KernelTypes {
    /// All types. A new aya loader has read a copy of its own, which it does not share.
    /// That loader is dropped first, so that there is only one copy at a time.
    fn whole(&self) -> Result<&Shared, LoadError> {
        if let Some(shared) = self.0.get() {
            return Ok(shared);
        }
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let types = Btf::from_sys_fs().map_err(|error| LoadError::NoTypes(one_line(&error)))?;
        let shared = Shared::new(types, move |types| {
            let mut loader = loader;
            loader.btf(Some(types));
            RefCell::new(loader)
        });
        Ok(self.0.get_or_init(|| shared))
    }

    /// The types that an object needs, and a loader, while nobody has read all of them.
    /// A kernel's iterators are found by their numbers among all types.
    fn part<'a>(&self, wanted: &ObjectSpec<'_>) -> Option<(Btf, EbpfLoader<'a>)> {
        if self.0.get().is_some() || !wanted.object.iterators.is_empty() {
            return None;
        }
        let (types, loader) = both(
            || needed_types(wanted),
            || {
                let mut loader = EbpfLoader::new();
                loader.btf(None);
                loader
            },
        );
        Some((types?, loader))
    }
}

impl Loader for KernelTypes {
    fn load(&self, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        if let Some((types, loader)) = self.part(wanted) {
            let mut loader = loader;
            loader.btf(Some(&types));
            return load(&mut loader, &types, wanted);
        }
        self.whole()?.with_dependent(|types, loader| load(&mut loader.borrow_mut(), types, wanted))
    }
}

/// The kernel's types that an object and its session program name, if their descriptions
/// are understood.
fn needed_types(wanted: &ObjectSpec<'_>) -> Option<Btf> {
    let objects = [Some(wanted.object), wanted.session];
    let own = objects.into_iter().flatten().map(|object| {
        let parsed = aya_obj::Object::parse(object.code).ok()?;
        Some(parsed.btf?.to_bytes())
    });
    let own: Vec<Vec<u8>> = own.collect::<Option<_>>()?;
    let part = needed_types::needed(&fs::read(KERNEL_TYPES).ok()?, own.iter().map(Vec::as_slice))?;
    Btf::parse(&part, Default::default()).ok()
}

/// Loads an object. It and its session program are relocated at the same time and then
/// loaded at the same time: the kernel's verifier takes its time for the session program.
fn load(
    loader: &mut EbpfLoader<'_>,
    types: &Btf,
    wanted: &ObjectSpec<'_>,
) -> Result<Box<dyn Loaded>, LoadError> {
    let prepare = || wanted.session.map(|object| Prepared::new(object, types)).transpose();
    let (ebpf, prepared) = both(|| relocate(loader, wanted), prepare);
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

/// Makes the maps and puts the offsets of the kernel's fields into the programs.
fn relocate(loader: &mut EbpfLoader<'_>, wanted: &ObjectSpec<'_>) -> Result<Ebpf, LoadError> {
    if let Some((map, capacity)) = wanted.capacity {
        loader.map_max_entries(map, capacity);
    }
    loader.load(wanted.object.code).map_err(|error| LoadError::refused(&error))
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
