//! Loads the compiled programs of `bpf/` into the kernel.
//!
//! There is one trait, [`Loader`], and two engines behind it. aya is written in
//! Rust and is what a plain build has. The cargo feature `libbpf` adds libbpf,
//! the kernel developers' own loader, through libbpf-rs; a build with it uses
//! libbpf. Both load the same objects and attach them at the same places, and
//! tests compare what comes of it.
//!
//! Whatever an engine loads or attaches is held by descriptors of this process.
//! When the process ends, however it ends, the kernel removes all of it.

mod aya;
mod error;
pub mod interface;
#[cfg(feature = "libbpf")]
mod libbpf;

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use crate::sys::{locked_memory, test_hook};

pub use crate::sys::bpf::FunctionEntry;
pub use error::LoadError;
pub use interface::{AttachedProbes, Entries, Iterate, IteratorScope, Loaded, Loader, ObjectSpec, Ring};

/// The variable with which tests choose an engine: `aya` or `libbpf`
/// (docs/testing.md).
const CHOICE: &str = "GPUMAP_TEST_LOADER";

/// The libraries that can load objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// aya.
    Aya,
    /// libbpf. Only in a build with the cargo feature `libbpf`.
    Libbpf,
}

impl Engine {
    /// The engine that a test wants, else libbpf if this build has it.
    fn chosen() -> Result<Self, LoadError> {
        match test_hook::read(CHOICE) {
            Some(name) if name == "aya" => Ok(Self::Aya),
            Some(name) if name == "libbpf" => Ok(Self::Libbpf),
            Some(_) => Err(LoadError::NoEngine),
            None if cfg!(feature = "libbpf") => Ok(Self::Libbpf),
            None => Ok(Self::Aya),
        }
    }
}

thread_local! {
    static SHARED: RefCell<Weak<dyn Loader>> = const { RefCell::new(Weak::<aya::KernelTypes>::new()) };
}

/// The loader of this thread. Making one takes time, because it reads the kernel's
/// description of its types. So as long as somebody holds one, who asks for it gets
/// the same.
///
/// # Errors
///
/// [`LoadError::NoTypes`].
pub fn shared() -> Result<Rc<dyn Loader>, LoadError> {
    if let Some(shared) = SHARED.with_borrow(Weak::upgrade) {
        return Ok(shared);
    }
    share(Engine::chosen()?)
}

/// Makes a loader with this engine. As long as a caller holds it, [`shared`] returns
/// it to all callers in this thread.
///
/// # Errors
///
/// [`LoadError::NoTypes`], or [`LoadError::NoEngine`] if this build has no such
/// engine.
pub fn share(engine: Engine) -> Result<Rc<dyn Loader>, LoadError> {
    let loader = new(engine)?;
    SHARED.with_borrow_mut(|shared| *shared = Rc::downgrade(&loader));
    Ok(loader)
}

fn new(engine: Engine) -> Result<Rc<dyn Loader>, LoadError> {
    locked_memory::raised();
    match engine {
        Engine::Aya => Ok(Rc::new(aya::KernelTypes::read()?)),
        #[cfg(feature = "libbpf")]
        Engine::Libbpf => Ok(Rc::new(libbpf::Libbpf::new())),
        #[cfg(not(feature = "libbpf"))]
        Engine::Libbpf => Err(LoadError::NoEngine),
    }
}
