//! Device programs of which a function was replaced (`freplace`).
//!
//! A program of type `EXT` may take the place of a function of another one,
//! if that was loaded with types (BTF; `bpf_check_attach_target`,
//! `kernel/bpf/verifier.c`). The dump of the other one goes on to show what
//! was loaded. The kernel tells of it in the links alone: each names the
//! program that it leads to. Only where a device program has types does gpumap
//! ask for them; what most software attaches has none.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use crate::observation::{Answer, Program};
use crate::observe::problems::{Log, links_failed};
use crate::sys::bpf::{self, BpfError, TracingLink};

/// No more links than this are looked at.
const MAX_LINKS: usize = 1 << 20;

/// A program of type `EXT` in the place of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Replacement {
    /// The program that runs instead.
    by: u32,
    /// The program whose function it replaces; `None` if the kernel (before
    /// Linux 5.13) does not say.
    of: Option<u32>,
}

/// All replaced functions of the node at one moment.
#[derive(Debug)]
pub(super) struct Replacements(Result<Vec<Replacement>, String>);

impl Replacements {
    /// Asks the kernel for all links.
    pub(super) fn now(log: &mut Log) -> Self {
        let found = list(log).unwrap_or_else(|error| Err(links_failed(error, log)));
        Self(found)
    }

    /// The programs that replace functions of program `id`.
    pub(super) fn of(&self, id: u32) -> Answer<Vec<u32>> {
        match &self.0 {
            Ok(all) => {
                let here = all.iter().filter(|one| one.of.is_none_or(|of| of == id));
                Answer::Known(here.map(|one| one.by).collect())
            }
            Err(why) => Answer::Missing(why.clone()),
        }
    }

    /// Brings `programs`, which have types, up to date; returns those that
    /// changed as they were before. What could not be listed at this moment
    /// changes nothing.
    pub(super) fn update<'p>(
        &self,
        programs: impl Iterator<Item = &'p mut Program>,
    ) -> BTreeMap<u32, Program> {
        let mut before = BTreeMap::new();
        for program in programs {
            let now = self.of(program.id);
            if now.known().is_some() && now != program.replaced_by {
                before.insert(program.id, program.clone());
                program.replaced_by = now;
            }
        }
        before
    }
}

fn list(log: &mut Log) -> Result<Result<Vec<Replacement>, String>, BpfError> {
    let (mut found, mut last) = (Vec::new(), 0);
    for _ in 0..MAX_LINKS {
        let Some(id) = bpf::next_link_id(last)? else { return Ok(Ok(found)) };
        if log.out_of_time("listing links") {
            return Ok(Err("the time limit was reached".to_owned()));
        }
        match bpf::link_by_id(id).and_then(|link| bpf::tracing_link(link.as_fd())) {
            Ok(Some(link)) => found.extend(replacement(link)?),
            Ok(None) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
        last = id;
    }
    Ok(Err(format!("the node has more than {MAX_LINKS} links")))
}

/// What a link replaces, if its program is one that replaces: others that
/// watch a program (`fentry`, `fexit`) change nothing of it.
fn replacement(link: TracingLink) -> Result<Option<Replacement>, BpfError> {
    let info = match bpf::program_by_id(link.program).and_then(|program| bpf::program_info(program.as_fd())) {
        Err(error) if error.is_gone() => return Ok(None),
        info => info?,
    };
    let of = (link.target != 0).then_some(link.target);
    Ok((info.kind == bpf::EXTENSION_PROGRAM).then_some(Replacement { by: link.program, of }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a link whose target is not known counts for every
    /// program, and one that is known for its own alone.
    #[test]
    fn targets() {
        let all = |of| Replacements(Ok(vec![Replacement { by: 9, of }]));
        assert_eq!(all(Some(5)).of(5), Answer::Known(vec![9]));
        assert_eq!(all(Some(5)).of(6), Answer::Known(Vec::new()));
        assert_eq!(all(None).of(6), Answer::Known(vec![9]));
        assert!(Replacements(Err("no right".to_owned())).of(6).missing().is_some());
    }

    /// Make sure that a function that is replaced later, and one that is given
    /// back, changes its program alone, and that a list which could not be read
    /// changes none.
    #[test]
    fn updates() {
        let program = |id| Program { id, replaced_by: Answer::Known(Vec::new()), ..Program::default() };
        let mut programs = [program(5), program(6)];
        let replaced = Replacements(Ok(vec![Replacement { by: 9, of: Some(5) }]));
        assert_eq!(replaced.update(programs.iter_mut()), BTreeMap::from([(5, program(5))]));
        assert_eq!(programs[0].replaced_by, Answer::Known(vec![9]));
        assert_eq!(programs[1], program(6));
        assert!(replaced.update(programs.iter_mut()).is_empty());
        assert!(Replacements(Err("no right".to_owned())).update(programs.iter_mut()).is_empty());
        let given_back = Replacements(Ok(Vec::new())).update(programs.iter_mut());
        assert_eq!(given_back.into_keys().collect::<Vec<u32>>(), [5]);
        assert_eq!(programs, [program(5), program(6)]);
    }
}
