//! Owners that only the site knows: patterns of cgroup paths from `[[owner]]` of
//! `/etc/gpumap.toml`, such as `/acme.slice/job-{job}.scope`.
//!
//! A pattern is compared from the root of the hierarchy on, name by name, and only with
//! names that root gave: whoever makes a cgroup of his own can fit any pattern.

use super::path_name::{Match, PathName, number, text, uid};
use super::slurm::numbered_job;
use crate::model::OwnerKind;
use crate::observation::OwnerPattern;

/// The most bytes of a pattern.
const LONGEST: usize = 1024;
/// The most characters of a kind.
const KIND: usize = 40;

/// A piece of a pattern's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// This text.
    Literal(&'a str),
    /// Any text, at least one byte: `*`, or `{FIELD}` with its field.
    Any(Option<Field>),
}

/// What a `{…}` says of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
enum Field {
    Job,
    Name,
    User,
    Uid,
    Step,
    Task,
}

/// What is wrong with a pattern; `None` if nothing is.
pub fn mistake(pattern: &OwnerPattern) -> Option<String> {
    let path = &pattern.cgroup;
    let kind = OwnerKind::of(&pattern.kind);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_word = pattern.kind.starts_with(|first: char| first.is_ascii_lowercase())
        && pattern.kind.len() <= KIND
        && pattern.kind.bytes().all(plain);
    if !is_word || kind.is_service() {
        return Some(format!("'{}' is no kind of owner: small letters, digits and '-'", pattern.kind));
    }
    let Some(names) = names(path).filter(|_| path.len() <= LONGEST) else {
        return Some(format!("'{path}' is no path of a cgroup: it begins with '/' and names one"));
    };
    let mut found = Vec::new();
    for name in names {
        let pieces = match pieces(name) {
            Ok(pieces) => pieces,
            Err(why) => return Some(format!("'{path}': {why}")),
        };
        found.extend(pieces.into_iter().filter_map(|piece| match piece {
            Piece::Any(field) => field,
            Piece::Literal(_) => None,
        }));
    }
    let has = |field| found.contains(&field);
    let twice = found
        .iter()
        .enumerate()
        .any(|(at, field)| found.get(..at).is_some_and(|before| before.contains(field)));
    match () {
        () if twice => Some(format!("'{path}': a field is there twice")),
        () if !has(Field::Job) && !has(Field::Name) => {
            Some(format!("'{path}' has neither {{job}} nor {{name}}"))
        }
        () if !has(Field::Job) && (has(Field::Step) || has(Field::Task)) => {
            Some(format!("'{path}': {{step}} and {{task}} need a {{job}}"))
        }
        () => None,
    }
}

/// The owner that a pattern sees in a path.
pub(super) fn recognise(pattern: &OwnerPattern, place: PathName<'_, '_>) -> Option<Match> {
    let mut owner = PathName::owner(OwnerKind::of(&pattern.kind));
    let mut taken = 0;
    for name in names(&pattern.cgroup).filter(|_| place.at == 0)? {
        for (field, value) in captured(&pieces(name).ok()?, place.ahead(taken)?)? {
            let value_text = || Some(text(value));
            match field {
                Field::Job => match number(value) {
                    Some(job) => numbered_job(&mut owner, job),
                    None => owner.job = value_text(),
                },
                Field::Name => owner.name = value_text(),
                Field::User => owner.user = value_text(),
                Field::Uid => owner.uid = Some(uid(value)?),
                Field::Step => owner.step = value_text(),
                Field::Task => owner.task = value_text(),
            }
        }
        taken += 1;
    }
    Match::plain(owner, taken)
}

/// The names of a pattern; `None` if it is no absolute path of a cgroup.
fn names(pattern: &str) -> Option<impl Iterator<Item = &str>> {
    let path = pattern.strip_prefix('/').filter(|path| !path.is_empty())?;
    let good = |name: &str| !matches!(name, "" | "." | "..");
    path.split('/').all(good).then(|| path.split('/'))
}

/// The pieces of one name.
fn pieces(name: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let (piece, after) = match first {
            '*' => (Piece::Any(None), &rest[1..]),
            '{' => {
                let (field, after) = rest[1..].split_once('}').ok_or("a '{' is not closed")?;
                let field = field.parse().map_err(|_| {
                    format!("{{{field}}} is none of {{job}}, {{name}}, {{user}}, {{uid}}, {{step}}, {{task}}")
                })?;
                (Piece::Any(Some(field)), after)
            }
            _ => {
                let (literal, after) = rest.split_at(rest.find(['*', '{']).unwrap_or(rest.len()));
                (Piece::Literal(literal), after)
            }
        };
        if matches!((pieces.last(), piece), (Some(Piece::Any(_)), Piece::Any(_))) {
            return Err("where one of two fields ends is not said".to_owned());
        }
        pieces.push(piece);
        rest = after;
    }
    Ok(pieces)
}

/// The fields of a name that fits. Each takes as little as possible, the last one what is
/// left: time in proportion to the length.
fn captured<'n>(pieces: &[Piece<'_>], name: &'n [u8]) -> Option<Vec<(Field, &'n [u8])>> {
    let mut rest = name;
    let mut found = Vec::new();
    let mut pieces = pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        let field = match piece {
            Piece::Literal(literal) => {
                rest = rest.strip_prefix(literal.as_bytes())?;
                continue;
            }
            Piece::Any(field) => field,
        };
        let end = match pieces.next() {
            None => rest.len(),
            Some(Piece::Literal(literal)) => {
                let literal = literal.as_bytes();
                let end = match pieces.peek() {
                    None => rest.strip_suffix(literal)?.len(),
                    Some(_) => 1 + rest.get(1..)?.windows(literal.len()).position(|part| part == literal)?,
                };
                let value = rest.get(..end)?;
                found.extend(field.map(|field| (field, value)));
                rest = rest.get(end + literal.len()..)?;
                if value.is_empty() {
                    return None;
                }
                continue;
            }
            Some(Piece::Any(_)) => return None,
        };
        let value = rest.get(..end).filter(|value| !value.is_empty())?;
        found.extend(field.map(|field| (field, value)));
        rest = &[];
    }
    rest.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Owner;
    use crate::observation::{Cgroup, Observation};
    use crate::owner::TrustedNames;

    fn pattern(cgroup: &str, kind: &str) -> OwnerPattern {
        OwnerPattern { cgroup: cgroup.to_owned(), kind: kind.to_owned() }
    }

    fn owner(cgroup: &str, path: &str) -> Option<Owner> {
        let node = Observation { owner_patterns: vec![pattern(cgroup, "acme")], ..Observation::default() };
        TrustedNames::of(&node).owner(path.as_bytes())
    }

    /// Make sure that fields are taken where they stand, and that other names fit not.
    #[test]
    fn fields() {
        let found = owner("/acme.slice/u{uid}-j{job}-*.scope", "/acme.slice/u7-j12-x.y.scope/a").unwrap();
        assert_eq!((found.kind.to_string(), found.uid, found.job_id), ("acme".to_owned(), Some(7), Some(12)));
        let text = owner("/batch/{user}/{job}", "/batch/alice/12.n1").unwrap();
        assert_eq!(
            (text.job.as_deref(), text.user.as_deref(), text.job_id),
            (Some("12.n1"), Some("alice"), None)
        );
        for path in [
            "/acme.slice",
            "/acme.slice/u7-j12.scope",
            "/acme.slice/ux-j1-a.scope",
            "/a/acme.slice/u7-j12-x.scope",
        ] {
            let found = owner("/acme.slice/u{uid}-j{job}-*.scope", path);
            assert!(found.is_none_or(|owner| owner.kind.to_string() != "acme"), "{path}");
        }
    }

    /// Make sure that a name counts only where root gave it.
    #[test]
    fn forged() {
        let owner_patterns = vec![pattern("/acme/{job}", "acme")];
        let theirs = Cgroup { path: "/acme".into(), uid: Some(1000), ..Cgroup::default() };
        let node = Observation { owner_patterns, cgroups: vec![theirs], ..Observation::default() };
        assert_eq!(TrustedNames::of(&node).owner(b"/acme/4711"), None);
        let inside = owner("/acme/{job}", "/user.slice/user-7.slice/user@7.service/acme/4711").unwrap();
        assert_eq!(inside.kind, OwnerKind::User);
        assert!(inside.claims.is_empty() && inside.job_id.is_none());
    }

    /// Make sure that a pattern that cannot mean anything is a mistake.
    #[test]
    fn mistakes() {
        for good in ["/a/{job}", "/a/*/x{name}y", "/a/{job}.{task}"] {
            assert_eq!(mistake(&pattern(good, "acme")), None, "{good}");
        }
        for bad in [
            "",
            "/",
            "a/{job}",
            "/a//{job}",
            "/a/../{job}",
            "/a/b",
            "/{job}{user}",
            "/{jobs}",
            "/{job",
            "/{name}-{task}",
            "/{job}/{job}",
        ] {
            assert!(mistake(&pattern(bad, "acme")).is_some(), "{bad}");
        }
        for kind in ["", "Acme", "unit", "user", "1a", "a b"] {
            assert!(mistake(&pattern("/a/{job}", kind)).is_some(), "{kind}");
        }
        assert_eq!(mistake(&pattern("/a/{job}", "oar")), None);
    }
}
