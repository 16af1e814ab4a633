//! What `gres.conf` makes of this node's GPUs: those that it does not name are open to
//! every job.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};
use super::slurm::{AS_ROOT, Value, value};
use crate::allocation::{Managed, managed};
use crate::observation::{ConfigFile, SlurmFile};
use crate::report::Gpu;
use crate::slurm_conf;

pub(super) const KINDS: &[CheckKind] = &[CheckKind {
    id: "slurm.gres",
    page: "Slurm denies the devices that gres.conf names for this node and allows all others: a GPU that is missing \
           there is open to every job. So is every GPU where slurm.conf has no GresTypes=gpu, where lines have no \
           File= and nothing detects GPUs, or where AutoDetect cannot work: a value that Slurm does not know, GPUs \
           of another vendor, a plugin (gpu_nvml.so, gpu_rsmi.so and their kin) that is not installed. gres.conf \
           also fixes what Slurm's GPU numbers mean.",
    look: gres,
}];

/// The values of AutoDetect (gres.conf(5) of Slurm 26.05).
const AUTO_DETECT: [&str; 6] = ["nvml", "nvidia", "rsmi", "oneapi", "nrt", "off"];
/// What helps where GPUs are not named.
const NAME_ALL: &str = "name every GPU in gres.conf, or set AutoDetect there";

fn gres(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let slurm = &node.setup.slurm;
    let Some(file) = &slurm.gres_conf else {
        let is_lacking = slurm.slurm_conf.is_some() && !node.gpus.is_empty();
        let text = "There are GPUs, and there is no gres.conf: Slurm neither grants nor denies them.";
        return is_lacking.then(|| missing(text, NAME_ALL));
    };
    let Some(values) = file.values.known() else {
        let why = file.values.missing().unwrap_or_default();
        return Some(unknown(format!("{} cannot be read: {why}.", file.path), AS_ROOT));
    };
    let detects = || values.iter().filter(|(key, _)| key == "autodetect").map(|(_, value)| value.as_str());
    let is_known = |value: &&str| AUTO_DETECT.contains(&&*value.to_ascii_lowercase());
    if let Some(unknown) = detects().find(|value| !is_known(value)) {
        return Some(missing(
            format!("AutoDetect={unknown} in gres.conf is no value that Slurm knows: it detects no GPU."),
            "set AutoDetect to nvml, nvidia, rsmi, oneapi, nrt or off",
        ));
    }
    let is_neuron = detects().any(|value| value.eq_ignore_ascii_case("nrt"));
    let text = slurm.gres_text.as_ref().filter(|_| !is_neuron);
    let judged = || match text {
        Some(text) => of_node(node, text),
        None => of_values(node, file, values, detects().rfind(|value| !value.eq_ignore_ascii_case("off"))),
    };
    Some(types(node).unwrap_or_else(judged))
}

/// What GresTypes says, unless it has gpu.
fn types(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let file = node.setup.slurm.slurm_conf.as_ref()?;
    let fix = "set GresTypes=gpu in slurm.conf and restart slurmctld and slurmd";
    match value(file, "grestypes") {
        // A file that cannot be read is told with the configuration.
        _ if file.values.known().is_none() || node.gpus.is_empty() => None,
        Value::Known(Some(types)) if types.split(',').any(|one| one.trim().eq_ignore_ascii_case("gpu")) => {
            None
        }
        Value::Known(Some(types)) => Some(missing(
            format!("GresTypes is {types}, without gpu: Slurm neither grants nor denies GPUs."),
            fix,
        )),
        Value::Known(None) => {
            Some(missing("GresTypes is not set in slurm.conf: Slurm neither grants nor denies GPUs.", fix))
        }
        Value::Unread(why, fix) => {
            Some(unknown(format!("Whether GresTypes has gpu is not known: {why}."), fix))
        }
    }
}

/// What a file says of this node, line by line.
fn of_node(node: &NodeFacts<'_>, file: &ConfigFile) -> CheckResult {
    let host = node.observation.host.name.as_str();
    match managed(&file.text.lossy(), host, is_called(node, host), &node.gpus) {
        Err(why) => unknown(
            format!(
                "What gres.conf says of this node is not known: {why}. A GPU that it does not name is open to every job."
            ),
            "correct that line, or add one for this node; slurmd -G prints what Slurm makes of it",
        ),
        Ok(managed) => judged(node, &managed),
    }
}

/// Whether `slurm.conf` has a node of this name, or of its first label.
fn is_called(node: &NodeFacts<'_>, host: &str) -> bool {
    let short = host.split('.').next().unwrap_or_default();
    let values = node.setup.slurm.slurm_conf.iter().filter_map(|file| file.values.known()).flatten();
    let mut names = values.filter(|(key, _)| key == "nodename").map(|(_, list)| list);
    // A list that is not understood names nobody for certain.
    names.any(|list| [host, short].iter().any(|name| slurm_conf::contains(list, name) == Ok(true)))
}

fn judged(node: &NodeFacts<'_>, managed: &Managed) -> CheckResult {
    let gpus: Vec<&Gpu> = node.gpus.iter().filter(|gpu| !gpu.excluded).collect();
    if let Some(how) = managed.detect
        && let Some(found) = detection(node, how, managed)
    {
        return found;
    }
    if let Some(line) = managed.without_file {
        let text = format!(
            "gres.conf names GPUs without File= (line {line}) and detects none: Slurm allows all of them to every job."
        );
        return missing(text, "name the device of every GPU with File=, or set AutoDetect");
    }
    if let Some(file) = managed.strange.first() {
        return missing(
            format!("gres.conf names {file}, which is no GPU here."),
            "correct the file, or load the GPU's driver (drivers.loaded) and restart slurmd",
        );
    }
    let open: Vec<&str> =
        gpus.iter().filter(|gpu| !managed.keys.contains(&gpu.key)).map(|gpu| name(gpu)).collect();
    match (open.as_slice(), managed.detect) {
        ([], None) if gpus.is_empty() => note("gres.conf names no GPU."),
        ([], None) => ok(match gpus.len() {
            1 => "gres.conf names the GPU of this node.".to_owned(),
            count => format!("gres.conf names all {count} GPUs of this node."),
        }),
        ([], Some(how)) => note(format!("gres.conf lets Slurm detect GPUs (AutoDetect={how}).")),
        (_, None) if managed.lines == 0 => {
            missing("gres.conf names no GPU of this node: Slurm allows all of them to every job.", NAME_ALL)
        }
        (open, _) => missing(
            format!(
                "gres.conf does not name {}: Slurm allows what it does not name to every job.",
                open.join(", ")
            ),
            "name every GPU in gres.conf, also those that no job shall have, and restart slurmd",
        ),
    }
}

/// Why detection cannot work.
fn detection(node: &NodeFacts<'_>, how: &str, managed: &Managed) -> Option<CheckResult> {
    let fix = "name every GPU with File= in gres.conf, or set the AutoDetect of their vendor";
    if managed.keys.is_empty() && !node.gpus.is_empty() {
        let text =
            format!("AutoDetect={how} finds none of the GPUs here: Slurm neither grants nor denies them.");
        return Some(missing(text, fix));
    }
    let plugin = format!("gpu_{how}");
    let plugins = &node.setup.slurm.plugins;
    let is_absent = |gpu: &Option<Vec<String>>| gpu.as_ref().is_some_and(|all| !all.contains(&plugin));
    let lacks = !plugins.is_empty() && plugins.iter().all(|one| is_absent(&one.gpu));
    lacks.then(|| {
        let places: Vec<&str> = plugins.iter().map(|one| one.directory.as_str()).collect();
        missing(
            format!(
                "AutoDetect={how} needs {plugin}.so, which is not in {}: Slurm detects no GPU.",
                places.join(", ")
            ),
            "install the package of Slurm that has it, or name every GPU with File= in gres.conf",
        )
    })
}

fn name(gpu: &Gpu) -> &str {
    let node = gpu.nodes.iter().find(|node| node.gate).map(|node| node.path.as_str());
    node.map_or(gpu.key.as_str(), |path| path.strip_prefix("/dev/").unwrap_or(path))
}

/// The same of a setup that holds no more than some keys: what an older gpumap saved, and
/// AutoDetect of accelerators that gpumap does not list.
fn of_values(
    node: &NodeFacts<'_>,
    file: &SlurmFile,
    values: &[(String, String)],
    detects: Option<&str>,
) -> CheckResult {
    let lines =
        values.iter().filter(|(key, value)| key == "name" && value.eq_ignore_ascii_case("gpu")).count();
    match (lines, detects) {
        (_, Some(how)) => note(format!("gres.conf lets Slurm detect GPUs (AutoDetect={how}).")),
        (0, None) if file.value("include").is_some() => {
            unknown("gres.conf names no GPU itself and includes a file that cannot be read.", AS_ROOT)
        }
        (0, None) if node.gpus.is_empty() => note("gres.conf names no GPU."),
        (0, None) => missing("gres.conf names no GPU: Slurm allows all of them to every job.", NAME_ALL),
        (1, None) => ok("gres.conf names GPUs in one line."),
        (lines, None) => ok(format!("gres.conf names GPUs in {lines} lines.")),
    }
}
