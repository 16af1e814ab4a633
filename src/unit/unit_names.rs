//! Names of units: which cgroups are units, and where a unit's drop-ins are.

use strum::{Display, EnumString};

/// A kind of unit that has a cgroup. Its text is the ending of such a unit's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, Display)]
#[strum(serialize_all = "lowercase")]
pub enum UnitKind {
    /// A process that systemd starts.
    Service,
    /// Processes that others started and hand over to systemd.
    Scope,
    /// A group of units.
    Slice,
    /// A socket.
    Socket,
    /// A mount point.
    Mount,
    /// A swap device.
    Swap,
}

impl UnitKind {
    /// The kind of the unit with this name; `None` if such units have no cgroup.
    pub fn of(name: &str) -> Option<Self> {
        let (stem, ending) = name.rsplit_once('.')?;
        ending.parse().ok().filter(|_| !stem.is_empty())
    }

    /// The section of a unit's file that holds its device settings.
    pub fn section(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Scope => "Scope",
            Self::Slice => "Slice",
            Self::Socket => "Socket",
            Self::Mount => "Mount",
            Self::Swap => "Swap",
        }
    }
}

/// The unit of the system's manager whose own cgroup a path is. Units are in
/// slices alone; what a unit makes below itself, a user's manager included, is
/// no unit of the system's, whatever it is called.
pub fn of_cgroup(path: &[u8]) -> Option<&str> {
    let mut parts = path.strip_prefix(b"/")?.split(|byte| *byte == b'/').rev();
    let name = unescaped(parts.next()?)?;
    UnitKind::of(name)?;
    parts.all(|part| unescaped(part).is_some_and(is_slice)).then_some(name)
}

fn is_slice(name: &str) -> bool {
    UnitKind::of(name) == Some(UnitKind::Slice)
}

/// systemd puts `_` before names that the kernel could take for files of its
/// own.
fn unescaped(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    Some(name.strip_prefix('_').unwrap_or(name))
}

/// The names whose `.d` directories hold drop-ins of a unit, the most specific
/// first: itself, its template, its prefixes up to each dash, its kind.
pub fn drop_in_names(name: &str) -> Vec<String> {
    let mut names = Vec::new();
    let Some((stem, kind)) = name.rsplit_once('.') else { return names };
    let (prefix, instance) = stem.split_once('@').map_or((stem, None), |(a, b)| (a, Some(b)));
    expand(prefix, instance, kind, &mut names);
    names.push(kind.to_owned());
    names
}

fn expand(prefix: &str, instance: Option<&str>, kind: &str, names: &mut Vec<String>) {
    let mut prefix = prefix;
    loop {
        match instance {
            Some("") => names.push(format!("{prefix}@.{kind}")),
            Some(instance) => {
                names.push(format!("{prefix}@{instance}.{kind}"));
                // The template's own prefixes come before those of the instance.
                expand(prefix, Some(""), kind, names);
            }
            None => names.push(format!("{prefix}.{kind}")),
        }
        let Some(shorter) = shorter(prefix) else { return };
        prefix = shorter;
    }
}

/// `a-b-c` → `a-b-`, `a-b-` → `a-`; one trailing dash is passed over.
fn shorter(prefix: &str) -> Option<&str> {
    let body = prefix.strip_suffix('-').unwrap_or(prefix);
    let dash = body.rfind('-').filter(|dash| *dash > 0)?;
    // A second trailing dash ends it after one more step, as in systemd.
    prefix.get(..=dash).filter(|shorter| shorter.len() < prefix.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that prefixes, templates and kinds come in systemd's order.
    #[test]
    fn drop_ins() {
        assert_eq!(
            drop_in_names("a-b-c.service"),
            ["a-b-c.service", "a-b-.service", "a-.service", "service"]
        );
        assert_eq!(drop_in_names("-.slice"), ["-.slice", "slice"]);
        assert_eq!(drop_in_names("a@x.service"), ["a@x.service", "a@.service", "service"]);
        let names = drop_in_names("a-b@x.service");
        assert_eq!(names[..3], ["a-b@x.service", "a-b@.service", "a-@.service"]);
        assert_eq!(names[3], "a-@x.service");
    }

    /// Make sure that only the system manager's own cgroups are units.
    #[test]
    fn cgroups() {
        assert_eq!(of_cgroup(b"/system.slice/a.service"), Some("a.service"));
        assert_eq!(of_cgroup(b"/a.slice/a-b.slice"), Some("a-b.slice"));
        assert_eq!(of_cgroup(b"/init.scope"), Some("init.scope"));
        assert_eq!(of_cgroup(b"/system.slice/_cpu.service"), Some("cpu.service"));
        for path in ["/", "", "/x", "/system.slice/a.service/b.scope", "/.service", "/x/a.service"] {
            assert_eq!(of_cgroup(path.as_bytes()), None, "{path}");
        }
    }
}
