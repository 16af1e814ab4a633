//! The kernel's description of its types (BTF), without which no object of
//! `bpf/` can be loaded.
//!
//! Reading it takes some 50 ms of a CPU and 25 MiB. So objects that are loaded
//! one after the other share it: as long as somebody holds [`KernelTypes`], who
//! asks for it gets the same.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::rc::{Rc, Weak};
use std::thread;

use aya::{Btf, EbpfLoader};
use aya_obj::btf::BtfError;

thread_local! {
    static SHARED: RefCell<Weak<KernelTypes>> = const { RefCell::new(Weak::new()) };
}

/// The types of the running kernel, and a loader that knows them.
pub struct KernelTypes {
    btf: Btf,
    loader: RefCell<EbpfLoader<'static>>,
}

impl KernelTypes {
    /// The types that this thread has, or that are read now. Since Linux 5.4,
    /// if it is built with BTF.
    ///
    /// # Errors
    ///
    /// Why they cannot be read.
    pub fn shared() -> Result<Rc<Self>, BtfError> {
        if let Some(shared) = SHARED.with_borrow(Weak::upgrade) {
            return Ok(shared);
        }
        let read = Rc::new(Self::read()?);
        SHARED.with_borrow_mut(|shared| *shared = Rc::downgrade(&read));
        Ok(read)
    }

    /// Reads them twice at the same time: the loader takes no types from outside
    /// without having read its own first, and gives none away.
    fn read() -> Result<Self, BtfError> {
        thread::scope(|scope| {
            let loader = scope.spawn(EbpfLoader::new);
            let btf = Btf::from_sys_fs()?;
            let loader = loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(Self { btf, loader: RefCell::new(loader) })
        })
    }

    /// The types.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// The loader. What is set in it holds for all who share it, so maps whose
    /// size is set have names of their own.
    pub fn loader(&self) -> RefMut<'_, EbpfLoader<'static>> {
        self.loader.borrow_mut()
    }
}

impl fmt::Debug for KernelTypes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KernelTypes").finish_non_exhaustive()
    }
}
