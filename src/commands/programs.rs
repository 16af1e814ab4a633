//! Programs from wherever the user has them, as one observation.

use std::path::Path;

use super::{Failure, Session, envelope, input, saved};
use crate::bytecode;
use crate::cli::ProgramSource;
use crate::observation::{Map, Observation, Program};
use crate::observe;

/// Programs in the order given, with the facts they need.
pub(super) struct Gathered {
    /// Holds the programs and their maps.
    pub observation: Observation,
    /// The programs, in run order.
    pub ids: Vec<u32>,
}

/// Collects programs; `maps` names a file with map contents for them.
pub(super) fn gather(
    session: &mut Session<'_>,
    sources: &[ProgramSource],
    maps: Option<&Path>,
) -> Result<Gathered, Failure> {
    let saved = saved::from_option(session)?;
    let mut gathered = Gathered { observation: envelope::blank(), ids: Vec::new() };
    for source in sources {
        match (source, &saved) {
            (ProgramSource::Id(id), Some(saved)) => gathered.add_id(saved, *id)?,
            (ProgramSource::Id(id), None) => {
                gathered.add_id(&observe::program(&session.options(), *id)?, *id)?
            }
            (ProgramSource::File(path), _) => gathered.add_file(session, path)?,
        }
    }
    if let Some(path) = maps {
        gathered.add_maps(session, path)?;
    }
    Ok(gathered)
}

impl Gathered {
    /// Takes one program out of an observation, with the node it was seen on.
    fn add_id(&mut self, from: &Observation, id: u32) -> Result<(), Failure> {
        let program = from.programs.iter().find(|program| program.id == id).ok_or_else(|| {
            let why = "no such program in the observation";
            Failure::new(
                "no-program",
                format!("program {id}"),
                why,
                "a file whose name is a number is written ./17",
            )
        })?;
        self.observation.host = from.host.clone();
        self.observation.taken_at.clone_from(&from.taken_at);
        self.observation.gpu_facts = from.gpu_facts.clone();
        self.observation.errors.extend(from.errors.iter().cloned());
        self.add_program(program.clone());
        let uses = |map: &&Map| program.map_ids.contains(&map.id);
        from.maps.iter().filter(uses).for_each(|map| self.add_map(map.clone()));
        Ok(())
    }

    /// Takes what a file holds: the programs of an observation, raw
    /// instructions, or bpftool's output.
    fn add_file(&mut self, session: &mut Session<'_>, path: &Path) -> Result<(), Failure> {
        let bytes = input::read(session, path)?;
        self.add_bytes(&bytes, &input::name(path))
    }

    /// The same for a file that has been read.
    pub(super) fn add_bytes(&mut self, bytes: &[u8], name: &str) -> Result<(), Failure> {
        if saved::is_gpumap_json(bytes) {
            let observation = saved::parse(bytes, name)?;
            let ids: Vec<u32> = observation.programs.iter().map(|program| program.id).collect();
            return ids.into_iter().try_for_each(|id| self.add_id(&observation, id));
        }
        let programs = bytecode::read(bytes).map_err(|error| Failure::program_file(name, &error))?;
        for program in programs {
            let free = self.free_id();
            self.add_program(program.into_program(free));
        }
        Ok(())
    }

    fn add_maps(&mut self, session: &mut Session<'_>, path: &Path) -> Result<(), Failure> {
        let bytes = input::read(session, path)?;
        let name = input::name(path);
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| Failure::new("bad-maps", &name, format!("not text: {error}"), ""))?;
        let maps = bytecode::maps(text).map_err(|error| Failure::program_file(&name, &error))?;
        maps.into_iter().for_each(|map| self.add_map(map));
        Ok(())
    }

    /// Adds a program; another one of the same id (from another machine) gets
    /// a number of its own.
    fn add_program(&mut self, mut program: Program) {
        let programs = &mut self.observation.programs;
        match programs.iter().find(|known| known.id == program.id) {
            Some(known) if *known == program => {}
            Some(_) => {
                program.id = self.free_id();
                self.ids.push(program.id);
                self.observation.programs.push(program);
                return;
            }
            None => programs.push(program.clone()),
        }
        self.ids.push(program.id);
    }

    /// The newest contents win: `--maps` is read last.
    fn add_map(&mut self, map: Map) {
        self.observation.maps.retain(|known| known.id != map.id);
        self.observation.maps.push(map);
    }

    /// The smallest id not in use: 0 for a lone program from a file.
    fn free_id(&self) -> u32 {
        (0..).find(|id| self.observation.programs.iter().all(|program| program.id != *id)).unwrap_or_default()
    }
}
