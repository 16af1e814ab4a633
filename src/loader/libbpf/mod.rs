//! Loads objects with libbpf through libbpf-rs, the engine of the cargo feature
//! `libbpf`.

mod loaded;
mod ring;

use std::ffi::OsStr;
use std::os::fd::AsFd as _;

use libbpf_rs::{MapCore as _, Object, ObjectBuilder, OpenObject, ProgramAttachType, set_print};

use super::interface;
use super::{LoadError, Loaded, Loader, ObjectSpec};
use crate::sys::libbpf::expect_session;
use loaded::Programs;

/// libbpf. It reads the kernel's types for each object anew.
pub(super) struct Libbpf(());

impl Libbpf {
    /// Makes the engine, and keeps libbpf from writing messages to stderr.
    pub(super) fn new() -> Self {
        set_print(None);
        Self(())
    }
}

impl Loader for Libbpf {
    /// Loads an object. libbpf loads it as a whole, so if the kernel refuses it, it
    /// is loaded again without the optional programs.
    fn load(&self, wanted: &ObjectSpec<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let object = load(wanted, &[]).or_else(|error| match wanted.optional {
            [] => Err(error),
            optional => load(wanted, optional),
        })?;
        let session = wanted.session.map(|session| load_session(session, &object)).transpose()?;
        let session = session.zip(wanted.session.map(|wanted| wanted.session));
        let multi = (!wanted.multi.is_empty()).then(|| load_multi(wanted, &object)).transpose()?;
        Ok(Box::new(Programs::new(object, session, multi)))
    }
}

fn load(wanted: &ObjectSpec<'_>, without: &[&str]) -> Result<Object, LoadError> {
    let mut object = open(wanted.object)?;
    for mut map in object.maps_mut() {
        if let Some((_, capacity)) = wanted.capacity.filter(|(name, _)| map.name() == OsStr::new(name)) {
            map.set_max_entries(capacity).map_err(|error| LoadError::refused(&error))?;
        }
    }
    let left_out = || wanted.left_out.iter().chain(without);
    for mut program in object.progs_mut() {
        let is_wanted = left_out().all(|name| program.name() != OsStr::new(name));
        program.set_autoload(is_wanted);
    }
    object.load().map_err(|error| LoadError::refused(&error))
}

/// Loads the session program with the maps of the object that is loaded.
fn load_session(wanted: &interface::Object, with: &Object) -> Result<Object, LoadError> {
    let mut object = open_with(wanted, with)?;
    for mut program in object.progs_mut() {
        expect_session(&mut program).map_err(|error| LoadError::refused(&error))?;
    }
    object.load().map_err(|error| LoadError::refused(&error))
}

/// Loads the programs for links over many functions, with the maps of the object that is
/// loaded.
fn load_multi(wanted: &ObjectSpec<'_>, with: &Object) -> Result<Object, LoadError> {
    let mut object = open_with(wanted.object, with)?;
    for mut program in object.progs_mut() {
        let is_wanted = wanted.multi.iter().any(|name| program.name() == OsStr::new(name));
        program.set_autoload(is_wanted);
        if is_wanted {
            program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
        }
    }
    object.load().map_err(|error| LoadError::refused(&error))
}

/// Opens an object that shares the maps of one that is loaded.
fn open_with(wanted: &interface::Object, with: &Object) -> Result<OpenObject, LoadError> {
    let mut object = open(wanted)?;
    for mut map in object.maps_mut() {
        if let Some(shared) = with.maps().find(|shared| shared.name() == map.name()) {
            map.reuse_fd(shared.as_fd()).map_err(|error| LoadError::refused(&error))?;
        }
    }
    Ok(object)
}

fn open(object: &interface::Object) -> Result<OpenObject, LoadError> {
    ObjectBuilder::default().open_memory(object.code).map_err(|error| LoadError::refused(&error))
}
