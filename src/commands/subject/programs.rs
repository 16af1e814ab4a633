//! Gathers programs and maps from the kernel and from files into one observation.

use std::path::Path;

use crate::bytecode;
use crate::cli::ProgramSource;
use crate::commands::files::{self, saved};
use crate::commands::invocation::{Failure, Invocation, envelope};
use crate::model::ProblemCode;
use crate::observation::{Cgroup, Map, Observation, Problem, Program, with_inner};
use crate::observe;

/// Programs in the order of the question, with the facts they need.
pub(crate) struct Gathered {
    /// Holds the programs and their maps.
    pub observation: Observation,
    /// The programs, in run order.
    pub ids: Vec<u32>,
}

/// Collects programs; `maps` names a file with map contents for them.
pub(crate) fn gather(
    invocation: &mut Invocation<'_>,
    sources: &[ProgramSource],
    maps: Option<&Path>,
) -> Result<Gathered, Failure> {
    let saved = saved::from_option(invocation)?;
    let mut gathered = Gathered { observation: envelope::blank(), ids: Vec::new() };
    if let Some(saved) = &saved {
        gathered.seen_on(saved);
    }
    for source in sources {
        match (source, &saved) {
            (ProgramSource::Id(id), Some(saved)) => gathered.add_id(saved, *id)?,
            (ProgramSource::Id(id), None) => {
                gathered.add_id(&observe::program(&invocation.options(), *id)?, *id)?
            }
            (ProgramSource::File(path), _) => gathered.add_file(invocation, path)?,
        }
    }
    if let Some(path) = maps {
        gathered.add_maps(invocation, path)?;
    }
    invocation.problems(&gathered.observation.remarks)?;
    Ok(gathered)
}

impl Gathered {
    /// Takes over the node that an observation describes.
    fn seen_on(&mut self, from: &Observation) {
        self.observation.host = from.host.clone();
        self.observation.taken_at.clone_from(&from.taken_at);
        self.observation.gpu_facts = from.gpu_facts.clone();
        let errors = &mut self.observation.errors;
        let new: Vec<Problem> = from.errors.iter().filter(|error| !errors.contains(error)).cloned().collect();
        errors.extend(new);
    }

    /// Takes one program out of an observation, with the node it was seen on.
    fn add_id(&mut self, from: &Observation, id: u32) -> Result<(), Failure> {
        let program = from.programs.iter().find(|program| program.id == id).ok_or_else(|| {
            let why = "no such program in the observation";
            Failure::new(
                ProblemCode::NoProgram,
                format!("program {id}"),
                why,
                "a file whose name is a number is written ./17",
            )
        })?;
        self.seen_on(from);
        self.add_places(from, id);
        self.add_program(program.clone());
        let map = |id| from.maps.iter().find(|map| map.id == id);
        let used = with_inner(program.map_ids.iter().copied(), map);
        from.maps.iter().filter(|map| used.contains(&map.id)).try_for_each(|map| self.add_map(map))
    }

    /// Takes over where a program is attached.
    fn add_places(&mut self, from: &Observation, id: u32) {
        let has_it = |cgroup: &&Cgroup| cgroup.own.known().is_some_and(|own| own.programs.contains(&id));
        let known = &mut self.observation.cgroups;
        let new: Vec<Cgroup> =
            from.cgroups.iter().filter(has_it).filter(|cgroup| !known.contains(cgroup)).cloned().collect();
        known.extend(new);
        self.observation.scope.clone_from(&from.scope);
    }

    /// Takes what a file holds: the programs of an observation, raw
    /// instructions, or bpftool's output.
    fn add_file(&mut self, invocation: &mut Invocation<'_>, path: &Path) -> Result<(), Failure> {
        let bytes = files::read(invocation, path)?;
        self.add_bytes(&bytes, &files::name(path))
    }

    /// Adds the programs of a file that has been read.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8], name: &str) -> Result<(), Failure> {
        if saved::is_gpumap_json(bytes) {
            let observation = saved::parse(bytes, name)?;
            let ids: Vec<u32> = observation.programs.iter().map(|program| program.id).collect();
            return ids.into_iter().try_for_each(|id| self.add_id(&observation, id));
        }
        let programs = bytecode::read(bytes).map_err(|error| Failure::program_file(name, &error))?;
        for program in programs {
            let what = name.to_owned();
            let note = program.note.clone().map(|why| Problem {
                code: ProblemCode::BadProgram,
                what,
                why,
                needs: String::new(),
            });
            self.observation.remarks.extend(note);
            let free = self.free_id();
            self.add_program(program.into_program(free));
        }
        Ok(())
    }

    /// Adds the maps of a file; they win over those seen with the programs,
    /// because the user gave them for it.
    fn add_maps(&mut self, invocation: &mut Invocation<'_>, path: &Path) -> Result<(), Failure> {
        let bytes = files::read(invocation, path)?;
        let name = files::name(path);
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| Failure::new(ProblemCode::BadMaps, &name, format!("not text: {error}"), ""))?;
        let maps = bytecode::maps(text).map_err(|error| Failure::program_file(&name, &error))?;
        for map in maps {
            self.observation.maps.retain(|known| known.id != map.id);
            self.observation.maps.push(map);
        }
        Ok(())
    }

    /// Adds a program. If another one (from another machine) has its id, it gets a
    /// new one.
    fn add_program(&mut self, mut program: Program) {
        let same_id = self.observation.programs.iter().find(|known| known.id == program.id);
        let is_known = same_id == Some(&program);
        if same_id.is_some() && !is_known {
            program.id = self.free_id();
        }
        self.ids.push(program.id);
        if !is_known {
            self.observation.programs.push(program);
        }
    }

    /// Adds a map. Instructions name maps by id, so two different maps of one
    /// id cannot both be right for the programs here.
    fn add_map(&mut self, map: &Map) -> Result<(), Failure> {
        match self.observation.maps.iter().find(|known| known.id == map.id) {
            Some(known) if known == map => Ok(()),
            Some(_) => {
                let why = "differs between the programs' sources";
                let needs = "ask about programs of one node and one time";
                Err(Failure::new(ProblemCode::MapConflict, format!("map {}", map.id), why, needs))
            }
            None => {
                self.observation.maps.push(map.clone());
                Ok(())
            }
        }
    }

    /// The smallest id not in use: 0 for a lone program from a file.
    fn free_id(&self) -> u32 {
        (0..).find(|id| self.observation.programs.iter().all(|program| program.id != *id)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(tag: &str) -> Observation {
        let program = Program { id: 7, tag: tag.to_owned(), map_ids: vec![3], ..Program::default() };
        let maps = vec![Map { id: 3, ..Map::default() }, Map { id: 4, ..Map::default() }];
        Observation { programs: vec![program], maps, ..Observation::default() }
    }

    /// Make sure that programs keep their order and never replace each other,
    /// and that only the maps they use come along.
    #[test]
    fn programs_with_the_same_id() {
        let mut gathered = Gathered { observation: envelope::blank(), ids: Vec::new() };
        for tag in ["a", "b", "a"] {
            gathered.add_id(&observation(tag), 7).unwrap();
        }
        assert_eq!(gathered.ids, [7, 0, 7]);
        assert_eq!(gathered.observation.programs.len(), 2);
        assert_eq!(gathered.observation.maps.iter().map(|map| map.id).collect::<Vec<_>>(), [3]);
        assert!(gathered.add_id(&observation("a"), 8).is_err());
        let mut other = observation("a");
        other.maps[0].flags = 1;
        assert!(gathered.add_id(&other, 7).is_err(), "a map of the same id with other contents");
    }
}
