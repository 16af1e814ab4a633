//! The kernel's description of its types (BTF), without which no object of
//! `bpf/` can be loaded.
//!
//! Reading it takes some 50 ms and 25 MiB. So objects that are loaded
//! one after the other share it: as long as somebody holds [`KernelTypes`], who
//! asks for it gets the same.

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};

use aya::{Btf, EbpfLoader};
use aya_obj::btf::BtfError;
use self_cell::self_cell;

thread_local! {
    static SHARED: RefCell<Weak<KernelTypes>> = const { RefCell::new(Weak::new()) };
}

type Loader<'a> = RefCell<EbpfLoader<'a>>;

self_cell! {
    /// The types, and the loader that borrows them.
    struct Shared {
        owner: Btf,
        #[not_covariant]
        dependent: Loader,
    }
}

/// The types of the running kernel, and a loader that knows them.
pub struct KernelTypes(Shared);

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

    /// Reads them. A new loader has read its own already, which it gives to
    /// nobody: those are let go of first, so that there is one copy at a time.
    fn read() -> Result<Self, BtfError> {
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let types = Btf::from_sys_fs()?;
        Ok(Self(Shared::new(types, move |types| {
            let mut loader = loader;
            loader.btf(Some(types));
            RefCell::new(loader)
        })))
    }

    /// The types.
    pub fn btf(&self) -> &Btf {
        self.0.borrow_owner()
    }

    /// Uses the loader. What is set in it holds for all who share it, so maps
    /// whose size is set have names of their own.
    pub fn load<T>(&self, load: impl FnOnce(&mut EbpfLoader<'_>) -> T) -> T {
        self.0.with_dependent(|_, loader| load(&mut loader.borrow_mut()))
    }
}

impl fmt::Debug for KernelTypes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KernelTypes").finish_non_exhaustive()
    }
}
