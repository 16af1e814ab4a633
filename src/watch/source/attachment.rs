//! What watches a file: one link of the session program for all functions of
//! the C library, else a link for each entry and each return.

use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::path::Path;

use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeLink, UProbeScope};

use super::object::{Kernel, chain};
use super::probes::Probe;
use crate::sys::bpf::Entry;
use crate::watch::WatchError;

/// What watches a file, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Attachment {
    session: Option<OwnedFd>,
    pair: Vec<UProbeLink>,
}

impl Attachment {
    /// How many descriptors it takes, at most: one, or those of a link and of
    /// its event for each entry and return.
    pub(super) fn descriptors(&self) -> usize {
        usize::from(self.session.is_some()) + 2 * self.pair.len()
    }
}

impl Kernel {
    /// Begins to report calls of functions of one file, given with their
    /// offsets: in every process that maps it, or in one and in no other.
    pub(super) fn attach(
        &mut self,
        functions: &[(&Probe, u64)],
        file: &Path,
        pid: Option<u32>,
    ) -> Result<Attachment, WatchError> {
        let mut attachment = Attachment::default();
        let mut entries = Vec::new();
        for (probe, offset) in functions {
            match (&self.session, probe.kind) {
                (Some(_), Some(cookie)) => entries.push(Entry { offset: *offset, cookie }),
                _ => attachment.pair.extend(self.attach_pair(probe, file, *offset, pid)?),
            }
        }
        if let Some(session) = self.session.as_ref().filter(|_| !entries.is_empty()) {
            attachment.session = Some(session.attach(file, &entries, pid)?);
        }
        Ok(attachment)
    }

    fn attach_pair(
        &mut self,
        probe: &Probe,
        file: &Path,
        offset: u64,
        pid: Option<u32>,
    ) -> Result<Vec<UProbeLink>, WatchError> {
        let scope = pid.and_then(NonZeroU32::new).map_or(UProbeScope::AllProcesses, UProbeScope::OneProcess);
        let failed = |error| WatchError::Attach(probe.function.to_owned(), chain(&error));
        let mut links = Vec::new();
        // The return first: an entry without its return would stay behind.
        for name in std::iter::once(probe.exit).chain(probe.entry) {
            let program: &mut UProbe =
                self.program(name)?.try_into().map_err(|_| WatchError::Object(name))?;
            let id = program.attach(offset, file, scope).map_err(failed)?;
            links.push(program.take_link(id).map_err(failed)?);
        }
        Ok(links)
    }
}
