//! The plan: what is missing, who denies it, and the steps.

use super::direct::{self, PlannedSwap};
use super::intention::{self, Like, Target};
use super::others::{self, Widening};
use super::{owners, pinned, runtime, slurm, systemd};
use crate::analyse::{self, AnalyseError, ProgramInForce, Stack};
use crate::gpu;
use crate::model::{
    CgroupPath, Device, DeviceType, GpuKey, IntentionSource, MAX_MAJOR, MAX_MINOR, Numbers, RepairState,
    Request, Rule, Verdict, Writer,
};
use crate::observation::{Observation, Text, Unit};
use crate::owner::Directory;
use crate::policy::{Decoder, Policy, TimeLimit};
use crate::report::{self, Denier, ListedRule, Repair, RepairAnswer};
use crate::unit::{self, DeviceRules};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct RepairRequest {
    /// A saved observation that says what should be allowed.
    pub like: Option<Like>,
    /// Requests that should be allowed.
    pub allow: Vec<Rule>,
    /// The GPUs that Slurm allocated, as the caller repeats them.
    pub allocated: Option<String>,
    /// Requests that stay as they are, whatever the source says.
    pub deny: Vec<Rule>,
    /// Ask about the next reload of systemd and not about now.
    pub prevent: bool,
    /// Put a program in the place of the one that denies, whatever command its owner
    /// has.
    pub direct: bool,
    /// The cgroup whose processes may all gain; by default the repaired one.
    pub at: Option<Text>,
    /// The words of the command line that say what should be allowed, to be
    /// repeated.
    pub words: Vec<String>,
}

/// Plans the repair of one cgroup of an observation, which should hold what is
/// below its unit too. Nothing is changed.
///
/// # Errors
///
/// The observation does not hold the cgroup or one of its programs.
pub fn plan(
    observation: &Observation,
    path: &Text,
    request: &RepairRequest,
    limit: &TimeLimit,
) -> Result<Repair, AnalyseError> {
    prepare(observation, path, request, limit).map(|(answer, _)| answer.repair)
}

/// The plan, and what `--apply` would carry out of it.
///
/// # Errors
///
/// As [`plan`].
pub fn prepare(
    observation: &Observation,
    path: &Text,
    request: &RepairRequest,
    limit: &TimeLimit,
) -> Result<(RepairAnswer, Option<PlannedSwap>), AnalyseError> {
    let mut decoder = Decoder::within(limit);
    let stack = analyse::stack(observation, path, &mut decoder)?;
    let owner = Directory::new(observation).of(path).cloned();
    let cgroup_id = observation.cgroups.iter().find(|cgroup| cgroup.path == *path).map(|cgroup| cgroup.id);
    let repair = Repair {
        cgroup: path.lossy().into_owned(),
        cgroup_hex: path.hex(),
        cgroup_id: cgroup_id.unwrap_or_default(),
        owner,
        ..Repair::default()
    };
    let mut planner = Planner { observation, path, request, decoder, stack, repair, change: None };
    planner.plan();
    let gpus = gpu::inventory(&observation.gpu_facts);
    Ok((RepairAnswer { gpus, repair: planner.repair }, planner.change))
}

/// A plan in the making.
struct Planner<'a> {
    observation: &'a Observation,
    path: &'a Text,
    request: &'a RepairRequest,
    decoder: Decoder,
    stack: Stack,
    repair: Repair,
    change: Option<PlannedSwap>,
}

impl<'a> Planner<'a> {
    fn plan(&mut self) {
        if let Some(unit) = self.unit() {
            self.repair.cautions = pinned::cautions(unit, &self.stack);
        }
        if let Err(why) = self.try_plan(self.request) {
            self.repair.refusals.push(why);
        }
    }

    /// # Errors
    ///
    /// Why there is no answer, a sentence.
    fn try_plan(&mut self, request: &RepairRequest) -> Result<(), String> {
        let target = self.target(request)?;
        self.repair.intention = Some(target.intention.clone());
        self.known(target.policy, "what should be allowed")?;
        let now = if request.prevent { self.after_reload()? } else { self.stack.whole };
        self.known(now, "what is allowed")?;
        let missing = self.decoder.missing(now, target.policy);
        let spared = self.decoder.naming(&request.deny);
        let missing = self.decoder.narrowed(missing, spared);
        self.repair.missing = self.rules(missing);
        if self.decoder.allows_nothing(missing) {
            self.repair.state = RepairState::NothingMissing;
            return Ok(());
        }
        self.repair.state = RepairState::Missing;
        self.repair.gpus = self.gpus(missing);
        self.repair.remaining = self.repair.missing.clone();
        let source = &target.intention.source;
        let claimed = others::refuse_claimed(self.observation, self.path, missing, source, &mut self.decoder);
        let done = match claimed.and_then(|()| self.limited_since(&target)) {
            Err(why) if !request.prevent => self.deniers(missing).map(drop).and(Err(why)),
            _ if request.prevent => self.prevent(missing, now),
            _ => self.restore(missing),
        };
        self.cautions(&target, &request.deny);
        done
    }

    fn target(&mut self, request: &RepairRequest) -> Result<Target, String> {
        if request.prevent {
            return Ok(intention::in_force(&self.stack, self.observation));
        }
        if !request.allow.is_empty() {
            return Ok(intention::asked(&self.stack, &request.allow, &mut self.decoder));
        }
        if let Some(list) = &request.allocated {
            let now = self.stack.whole;
            return slurm::named(self.observation, self.path, list, now, &mut self.decoder);
        }
        match &request.like {
            Some(like) => intention::saved(self.observation, self.path, like, &mut self.decoder),
            None => self.found_target(),
        }
    }

    /// What says by itself what should be allowed, the strongest source first.
    fn found_target(&mut self) -> Result<Target, String> {
        if slurm::of(&Directory::new(self.observation), self.path).is_some() {
            let found = slurm::of_program(self.observation, self.path, &self.stack, &mut self.decoder);
            return found.map_err(|why| format!("nothing says what should be allowed: {why}"));
        }
        if let Some(why) = self.unseen_programs() {
            return Err(format!(
                "nothing says what should be allowed: the programs in force are not known ({why}): run \
                 gpumap as root of the node, or name a source with --like or --allow"
            ));
        }
        if let Some(target) = intention::surviving(self.path, &self.stack, &mut self.decoder)? {
            return Ok(target);
        }
        let no_file = match runtime::granted(self.observation, self.path, &mut self.decoder) {
            Ok(target) => return Ok(target),
            Err(why) => why,
        };
        let files = self.of_files().map(|(_, files)| files);
        let no_unit = match files.and_then(|files| runtime::service(self.observation, self.path, files)) {
            Ok(target) => return Ok(target),
            Err(why) => why,
        };
        Err(format!(
            "nothing says what should be allowed: no runtime's program is in force beside systemd's, \
             {no_file}, and {no_unit}; name a source with --like or --allow"
        ))
    }

    /// Why the programs in force on the cgroup are not known; `None` where they are.
    fn unseen_programs(&self) -> Option<&str> {
        let cgroup = self.observation.cgroups.iter().find(|cgroup| cgroup.path == *self.path)?;
        cgroup.effective.missing()
    }

    /// Refuses to take back a limit that somebody set for the unit after the source was
    /// so.
    fn limited_since(&self, target: &Target) -> Result<(), String> {
        let is_units = self.stack.programs.iter().any(|program| self.is_units_own(program));
        match self.unit().filter(|_| is_units) {
            Some(unit) => owners::refuse_later_limit(unit, &target.intention),
            None => Ok(()),
        }
    }

    /// The unit that the cgroup is or is in, as its files were seen.
    fn unit(&self) -> Option<&'a Unit> {
        let path = intention::unit_of(self.path)?;
        self.observation.units.iter().find(|unit| unit.cgroup == path)
    }

    /// Makes sure that nothing of a policy is unknown.
    fn known(&mut self, policy: Policy, what: &str) -> Result<(), String> {
        if self.decoder.is_known(policy) {
            return Ok(());
        }
        let why = self.decoder.reasons(policy).join("; ");
        Err(format!("{what} is not known exactly: {why}"))
    }

    /// What will be allowed after the next reload: what is allowed now, if the files
    /// of the unit allow it too.
    fn after_reload(&mut self) -> Result<Policy, String> {
        let (_, files) = self.of_files()?;
        if let Some(unit) = self.unit() {
            pinned::after_reload(unit, &self.stack)?;
        }
        Ok(match files {
            Some(files) => self.decoder.all_of(&[self.stack.together, files]),
            None => self.stack.together,
        })
    }

    /// The unit that the cgroup is in, and what a program made of its files would
    /// decide; `None` where they make none.
    fn of_files(&mut self) -> Result<(Text, Option<Policy>), String> {
        let unit = intention::unit_of(self.path)
            .ok_or_else(|| format!("{} is in no unit of the system's systemd", self.path.lossy()))?;
        let found = self.observation.units.iter().find(|found| found.cgroup == unit);
        let Some(found) = found else {
            return Err(format!("what the files of {} say about devices was not seen", unit.lossy()));
        };
        let filter = match unit::device_rules(found, &self.observation.gpu_facts) {
            DeviceRules::Open => return Ok((unit, None)),
            DeviceRules::Filter(filter) => filter,
        };
        if let Some(allow) = filter.unresolved.first() {
            return Err(format!("what {} of {} stands for is not known", allow.device, unit.lossy()));
        }
        if let Some(doubt) = filter.doubts.first() {
            return Err(format!("what {} allows is not certain: {doubt}", unit.lossy()));
        }
        let rules: Vec<Rule> = filter.rules.iter().map(allowed_by).collect();
        let nothing = self.decoder.naming(&[]);
        let named = self.decoder.naming(&rules);
        Ok((unit, Some(self.decoder.widened(nothing, named))))
    }

    /// The step where a reload would take something away: the list of the unit
    /// gets what is missing in it.
    fn prevent(&mut self, missing: Policy, after: Policy) -> Result<(), String> {
        let (unit, _) = self.of_files()?;
        let values = systemd::values(&mut self.decoder, missing, self.stack.together);
        let remaining = self.decoder.missing(values.allows, missing);
        if !self.decoder.allows_nothing(remaining) {
            let rules = self.rules(remaining);
            self.repair.remaining = rules;
            return Err(
                "DeviceAllow= has no words for all of it, and systemd would apply the list at once: \
                        what it does not name would be lost now"
                    .to_owned(),
            );
        }
        let step = systemd::step(&unit, &self.observation.units, &values)?;
        let mended = self.decoder.widened(after, values.allows);
        self.finish(step, missing, mended);
        Ok(())
    }

    /// The programs that deny something that is missing; the repair names them.
    fn deniers(&mut self, missing: Policy) -> Result<Vec<ProgramInForce>, String> {
        let mut deniers = Vec::new();
        for program in &self.stack.programs.clone() {
            let denied = self.decoder.missing(program.policy, missing);
            if !self.decoder.allows_nothing(denied) {
                let denies = self.rules(denied);
                self.repair.denied_by.push(denier(program, denies));
                deniers.push(program.clone());
            }
        }
        match self.stack.programs.iter().find(|program| program.by_place) {
            Some(program) => Err(format!(
                "program {} decides by its place, its maps or what other programs said: what it would say \
                 beside another one cannot be known",
                program.place.id
            )),
            None => Ok(deniers),
        }
    }

    /// The steps where something is denied now.
    fn restore(&mut self, missing: Policy) -> Result<(), String> {
        let deniers = self.deniers(missing)?;
        self.refuse_v1(missing);
        match deniers.as_slice() {
            [] => Ok(()),
            [one] if self.request.direct => self.replace(one, missing),
            [one] => {
                let Err(why) = self.mend(one, missing) else { return Ok(()) };
                self.repair.refusals.push(why);
                // What others gain by a command they gain by a program too, and are
                // named already.
                if let Err(why) = self.replace(one, missing)
                    && !self.repair.refusals.contains(&why)
                {
                    self.repair.refusals.push(format!("no program in its place either: {why}"));
                }
                Ok(())
            }
            several => self.several(&several.iter().collect::<Vec<_>>()),
        }
    }

    /// One program in the place of the one that denies.
    fn replace(&mut self, program: &ProgramInForce, missing: Policy) -> Result<(), String> {
        let level = self.level_of(program)?;
        let meant = self.request.at.clone().unwrap_or_else(|| self.path.clone());
        if !direct::is_around(&meant, self.path) {
            return Err(format!("--at {}: that is not around {}", meant.lossy(), self.path.lossy()));
        }
        if !self.decoder.is_known(program.policy) {
            return Err(format!("what program {} decides is not known exactly", program.place.id));
        }
        let target = self.decoder.widened(program.policy, missing);
        let widening = Widening { program: program.place.id, policy: target, level: &level, meant: &meant };
        self.refuse_gainers(widening)?;
        let after = others::after(&self.stack, &widening, &mut self.decoder);
        let intention = self.repair.intention.clone().unwrap_or_default();
        let as_of = intention.as_of.map(|time| format!(", as of {time}")).unwrap_or_default();
        let adds = self.rules(missing);
        let wish = direct::Wish {
            observation: self.observation,
            cgroup: self.path,
            meant: &meant,
            program,
            owner: self.repair.owner.as_ref(),
            level: &level,
            adds,
            target,
            words: &self.request.words,
            why: format!("{}{as_of}", intention.what),
        };
        let change = direct::change(wish, &mut self.decoder)?;
        self.repair.replacement = Some(change.replacement.clone());
        self.change = Some(change);
        self.left(missing, after);
        Ok(())
    }

    /// The path of the cgroup that a program is attached to.
    fn level_of(&self, program: &ProgramInForce) -> Result<Text, String> {
        let at = &program.place.attached_at;
        let mut found = self.observation.cgroups.iter().filter(|cgroup| {
            cgroup.path.lossy() == at.as_str()
                && cgroup.own.known().is_some_and(|own| own.programs.contains(&program.place.id))
        });
        match (found.next(), found.next()) {
            (Some(cgroup), None) => Ok(cgroup.path.clone()),
            _ => Err(format!("where program {} is attached is not known", program.place.id)),
        }
    }

    /// Tells what the v1 controller, where it is mounted, denies by itself.
    fn refuse_v1(&mut self, missing: Policy) {
        let Some(v1) = self.stack.v1 else { return };
        let denied = self.decoder.missing(v1, missing);
        if !self.decoder.allows_nothing(denied) {
            self.repair.refusals.push(
                "the v1 devices controller, which is mounted too, denies some of it: write to devices.allow \
                 of the v1 cgroup"
                    .to_owned(),
            );
        }
    }

    /// No single command gives back what several programs deny.
    fn several(&mut self, deniers: &[&ProgramInForce]) -> Result<(), String> {
        let owner = self.repair.owner.clone();
        let foreign = deniers.iter().filter(|program| !self.is_units_own(program));
        let advice: Vec<String> = foreign.map(|program| owners::advice(program, owner.as_ref())).collect();
        self.repair.refusals.extend(advice);
        let ids: Vec<String> = deniers.iter().map(|program| program.place.id.to_string()).collect();
        Err(format!("programs {} deny it, and each must allow it", ids.join(" and ")))
    }

    /// Whether a program is systemd's, of the unit that the cgroup is in or is.
    fn is_units_own(&self, program: &ProgramInForce) -> bool {
        let at = Some(program.place.attached_at.as_str());
        let unit = intention::unit_of(self.path);
        let own = [unit.as_ref(), Some(self.path)];
        program.writer == Some(Writer::Systemd)
            && own.iter().any(|path| path.map(Text::lossy).as_deref() == at)
    }

    /// The step where one program alone denies.
    fn mend(&mut self, program: &ProgramInForce, missing: Policy) -> Result<(), String> {
        if !self.is_units_own(program) {
            return Err(owners::advice(program, self.repair.owner.as_ref()));
        }
        let at = &program.place.attached_at;
        let is_twin =
            |other: &&ProgramInForce| other.writer == Some(Writer::Systemd) && other.place.attached_at == *at;
        if self.stack.programs.iter().filter(is_twin).count() > 1 {
            return Err(format!(
                "more than one program at {at} looks like systemd's, which changes only its own"
            ));
        }
        let level = Text::from(at.as_str());
        let ceiling = self.decoder.widened(self.stack.together, missing);
        let values = systemd::values(&mut self.decoder, missing, ceiling);
        if values.values.is_empty() {
            return Err("DeviceAllow= has no words for it, or only such that allow more".to_owned());
        }
        let step = systemd::step(&level, &self.observation.units, &values)?;
        let policy = self.decoder.widened(program.policy, values.allows);
        let meant = self.request.at.as_ref().filter(|at| direct::is_around(at, self.path));
        let meant = meant.unwrap_or(self.path);
        let widening = Widening { program: program.place.id, policy, level: &level, meant };
        self.refuse_gainers(widening)?;
        let after = others::after(&self.stack, &widening, &mut self.decoder);
        if !self.decoder.allows_no_more(after, ceiling) {
            return Err("the command would allow more than is missing".to_owned());
        }
        self.finish(step, missing, after);
        Ok(())
    }

    /// Refuses a step by which others would gain something.
    fn refuse_gainers(&mut self, widening: Widening<'_>) -> Result<(), String> {
        let level = widening.level;
        let is_seen = self.observation.scope.iter().any(|scope| {
            scope.recursive && CgroupPath::new(level).is_at_or_below(CgroupPath::new(&scope.path))
        });
        if level != self.path && !is_seen {
            return Err(format!("who else is below {} was not seen", level.lossy()));
        }
        let gainers = others::gainers(self.observation, widening, &mut self.decoder);
        match gainers.as_slice() {
            [] => Ok(()),
            [first, rest @ ..] => Err(format!(
                "the program is in force for others too, who would gain from it: {first}{}; if they all may, \
                 say so with --at {}",
                if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) },
                level.lossy()
            )),
        }
    }

    /// Takes a step, and tells what stays denied after it.
    fn finish(&mut self, step: report::RepairStep, missing: Policy, after: Policy) {
        self.left(missing, after);
        self.repair.steps.push(step);
    }

    /// Tells what stays denied once the programs decide as in `after`.
    fn left(&mut self, missing: Policy, after: Policy) {
        let after: Vec<Policy> = [after].into_iter().chain(self.stack.v1).collect();
        let after = self.decoder.all_of(&after);
        let remaining = self.decoder.missing(after, missing);
        self.repair.remaining = self.rules(remaining);
    }

    /// The rules of a policy that denies by default.
    fn rules(&mut self, policy: Policy) -> Vec<ListedRule> {
        let list = self.decoder.rules(policy);
        if list.omitted.is_some() || list.default != Verdict::Deny {
            self.repair
                .cautions
                .push("what is missing has no short rules; not all of them are shown".to_owned());
        }
        list.rules.iter().copied().map(ListedRule::from).collect()
    }

    /// The GPUs whose node is among what is missing.
    fn gpus(&self, missing: Policy) -> Vec<GpuKey> {
        let inventory = gpu::inventory(&self.observation.gpu_facts);
        let is_missing = |gpu: &&report::Gpu| {
            gpu.major.zip(gpu.minor).is_some_and(|(major, minor)| {
                let device = Device { kind: DeviceType::Char, major, minor };
                self.decoder.verdict(missing, device, Request::ReadWrite) == Verdict::Allow
            })
        };
        inventory.iter().filter(is_missing).map(|gpu| gpu.key.clone()).collect()
    }

    /// What to look at before a step is done.
    fn cautions(&mut self, target: &Target, denied: &[Rule]) {
        let as_of = target.intention.as_of.clone().unwrap_or_default();
        let later = self.repair.denied_by.iter().filter(|denier| denier.loaded_at >= as_of);
        let later: Vec<String> = later
            .map(|denier| format!("program {} was loaded at {}", denier.program, denier.loaded_at))
            .collect();
        if !later.is_empty() && as_of.is_known() {
            let later = later.join(", ");
            self.repair.cautions.push(format!(
                "{later}, and what should be allowed is as of {as_of}: if somebody narrowed the limit on \
                 purpose since, leave it"
            ));
        }
        if target.intention.source == IntentionSource::SlurmAllocation {
            self.repair.cautions.push(slurm::CAUTION.to_owned());
        }
        for major in self.strange_majors() {
            self.repair.cautions.push(format!(
                "no driver has the major number {major} now: its devices may have other numbers since the \
                 driver was loaded again"
            ));
        }
        self.repair.cautions.extend(denied.iter().filter_map(|rule| rule.left_open(|_| true)));
        self.repair.cautions.extend(ALWAYS.map(str::to_owned));
    }

    /// Major numbers of what is missing that no driver of character devices has.
    fn strange_majors(&self) -> Vec<u32> {
        let Some(drivers) = self.observation.gpu_facts.drivers() else { return Vec::new() };
        let is_registered =
            |major: u32| drivers.iter().any(|it| it.kind == DeviceType::Char && it.major == major);
        let mut strange: Vec<u32> = self
            .repair
            .missing
            .iter()
            .filter(|listed| listed.rule.kind == Some(DeviceType::Char))
            .filter_map(|listed| listed.rule.major.single())
            .filter(|major| !is_registered(*major))
            .collect();
        strange.sort_unstable();
        strange.dedup();
        strange
    }
}

/// What is true of every repair.
const ALWAYS: [&str; 3] = [
    "what is open stays open, whatever the programs say: a device that was opened before the loss was never \
     lost, and one that is opened now stays so after an undo",
    "a process that failed to open a device may have remembered that, as NVIDIA's libraries do: start it \
     again",
    "gpumap repair asked again says whether anything is still missing",
];

fn denier(program: &ProgramInForce, denies: Vec<ListedRule>) -> Denier {
    Denier {
        program: program.place.id,
        name: program.name.clone(),
        attached_at: program.place.attached_at.clone(),
        flags: program.place.flags.clone(),
        writer: program.writer.clone(),
        loaded_at: program.loaded_at.clone(),
        denies,
    }
}

/// What one rule of systemd's allows: requests that ask for no more than it names.
fn allowed_by(rule: &unit::FilterRule) -> Rule {
    let numbers = |number: Option<u32>, max| Numbers {
        first: number.unwrap_or(0),
        last: number.unwrap_or(max),
        mask: None,
    };
    Rule {
        verdict: Verdict::Allow,
        kind: Some(rule.kind),
        major: numbers(rule.major, MAX_MAJOR),
        minor: numbers(rule.minor, MAX_MINOR),
        requests: Request::ALL.into_iter().filter(|request| request.bits() & !rule.access == 0).collect(),
    }
}
