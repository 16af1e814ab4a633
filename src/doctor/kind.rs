//! What a kind of check is, and what it finds.

use crate::model::CheckState;
use crate::observation::{Answer, Observation, Setup};
use crate::report::Gpu;

/// One kind of check.
#[derive(Clone, Copy, Debug)]
pub struct CheckKind {
    /// Stable id: the part of the setup, a dot, and what is looked at.
    pub id: &'static str,
    /// The manual's paragraph: what depends on it.
    pub page: &'static str,
    /// Looks; `None` where it does not apply.
    pub(super) look: fn(&NodeFacts<'_>) -> Option<CheckResult>,
}

/// The facts about a node that checks look at.
pub(super) struct NodeFacts<'a> {
    pub(super) observation: &'a Observation,
    pub(super) setup: &'a Setup,
    /// The GPUs of the node.
    pub(super) gpus: Vec<Gpu>,
}

impl NodeFacts<'_> {
    /// A setting of the kernel by path; `None` where there is no such file.
    pub(super) fn setting(&self, path: &str) -> Option<&Answer<String>> {
        self.setup.settings.get(path)
    }

    /// A setting that could be read.
    pub(super) fn value(&self, path: &str) -> Option<&str> {
        self.setting(path)?.known().map(String::as_str)
    }

    /// Whether gpumap has a capability; false where that is not known.
    pub(super) fn has(&self, capability: &str) -> bool {
        self.setup.rights.capabilities.known().is_some_and(|held| held.iter().any(|name| name == capability))
    }

    /// Whether gpumap is in a namespace of this kind other than the node's.
    pub(super) fn is_apart(&self, namespace: &str) -> bool {
        self.setup.rights.foreign_namespaces.iter().any(|name| name == namespace)
    }

    /// Why processes of the node may run that gpumap does not see; `None` where it sees
    /// all of them.
    pub(super) fn hides_processes(&self) -> Option<String> {
        if let Some(why) = self.setup.software.missing() {
            return Some(format!("processes cannot be listed: {why}"));
        }
        if let Some(why) = &self.setup.rights.namespaces_unknown {
            return Some(format!("whether gpumap is in the node's pid namespace is not known ({why})"));
        }
        if self.is_apart("pid") {
            return Some("gpumap is in a pid namespace of its own".to_owned());
        }
        if let Some(why) = self.setup.hidepid_unknown.as_ref().filter(|_| !self.has("CAP_SYS_PTRACE")) {
            return Some(format!("whether hidepid of /proc hides processes is not known ({why})"));
        }
        let hidden =
            self.setup.hidepid.is_some() && !self.setup.hidepid_exempt && !self.has("CAP_SYS_PTRACE");
        hidden.then(|| "hidepid of /proc hides processes from gpumap".to_owned())
    }

    /// Whether a process of this name is seen.
    pub(super) fn runs(&self, name: &str) -> bool {
        self.setup.software.known().is_some_and(|names| names.iter().any(|one| one == name))
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckResult {
    pub(super) state: CheckState,
    pub(super) text: String,
    pub(super) fix: Option<String>,
}

/// As gpumap needs it.
pub(super) fn ok(text: impl Into<String>) -> CheckResult {
    CheckResult { state: CheckState::Ok, text: text.into(), fix: None }
}

/// Worth knowing.
pub(super) fn note(text: impl Into<String>) -> CheckResult {
    CheckResult { state: CheckState::Note, text: text.into(), fix: None }
}

/// Something is missing, and this helps.
pub(super) fn missing(text: impl Into<String>, fix: impl Into<String>) -> CheckResult {
    CheckResult { state: CheckState::Missing, text: text.into(), fix: Some(fix.into()) }
}

/// It could not be looked at, and this helps.
pub(super) fn unknown(text: impl Into<String>, fix: impl Into<String>) -> CheckResult {
    CheckResult { state: CheckState::Unknown, text: text.into(), fix: Some(fix.into()) }
}

impl CheckResult {
    /// With something to do all the same.
    pub(super) fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}
