//! Finds the names of users, for people to read. A uid without a name stays a
//! number.
//!
//! `/etc/passwd` is read first. For other users the name service of the C library
//! (sssd, LDAP, systemd) is asked, which may need the network and may never answer.
//! So a helper process asks, for a bounded time, and is abandoned if it does not
//! answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::observation::{Process, Text, User};
use crate::observe::options::Options;
use crate::observe::problems::{Log, errno_of};
use crate::observe::procfile::is_own;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;
use crate::sys::helper::{Channel, Helper, wait};
use crate::sys::retry::again;
use crate::sys::stat::stat_at;

const PASSWD: &str = "/etc/passwd";
/// Bytes read of it: some 100,000 users.
const PASSWD_LIMIT: u64 = 8 << 20;
/// Users that the name service is asked for; processes of more are rare.
const ASKED: usize = 256;
/// How long all of its answers may take together. A cache needs far less.
const PATIENCE: Duration = Duration::from_millis(300);
/// The part of the remaining time that it may take.
const PART: u32 = 8;
/// Bytes of a name at most (`LOGIN_NAME_MAX` is 256).
const NAME: usize = 256;

/// The names of the users who have these processes; those without a name are
/// left out. Names are no part of any verdict: what cannot be read is a problem, and a
/// service that does not answer in time is none.
pub(in crate::observe) fn of(options: &Options, processes: &[Process], log: &mut Log) -> Vec<User> {
    names(options, processes.iter().map(|process| process.uid).collect(), log)
}

/// The names of these users; those without a name, and those that cannot be looked up,
/// are left out.
pub fn user_names(options: &Options, wanted: BTreeSet<u32>) -> Vec<User> {
    names(options, wanted, &mut Log::new(None))
}

fn names(options: &Options, mut wanted: BTreeSet<u32>, log: &mut Log) -> Vec<User> {
    let mut is_here = || log.there("names of users", is_here(&options.proc)) == Some(true);
    if wanted.is_empty() || !is_here() {
        return Vec::new();
    }
    let file = again(|| File::open(PASSWD))
        .and_then(|file| passwd(BufReader::new(file.take(PASSWD_LIMIT)), &wanted));
    let mut names = log.there(PASSWD, file.map_err(|error| errno_of(&error))).unwrap_or_default();
    wanted.retain(|uid| !names.contains_key(uid));
    let left = options.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) / PART);
    let asked = ask(wanted, left.unwrap_or(PATIENCE).min(PATIENCE), name_service);
    names.extend(log.there("names of users", asked).unwrap_or_default());
    names.into_iter().map(|(uid, name)| User { uid, name }).collect()
}

/// Whether the processes' users are those of the files that gpumap sees. They are
/// not if gpumap observes the node's processes from inside a container.
fn is_here(proc: &Path) -> Result<bool, Errno> {
    let place = |path: &Path| {
        let stat = stat_at(&Dir::open(path)?, c"")?;
        Ok((stat.dev, stat.inode))
    };
    // Without the right to look at that root, the proc file system alone decides.
    let first = match place(&proc.join("1/root")) {
        Err(Errno::EACCES | Errno::EPERM) => None,
        first => first.or_absent()?,
    };
    let is_same = first.map_or(Ok(true), |first| Ok(first == place(Path::new("/"))?));
    Ok(is_own(proc) && is_same?)
}

/// The wanted users that a file in the format of passwd(5) names. As for the C
/// library, the first line about a user counts.
fn passwd(mut text: impl BufRead, wanted: &BTreeSet<u32>) -> io::Result<BTreeMap<u32, Text>> {
    let (mut names, mut line) = (BTreeMap::new(), Vec::new());
    while text.read_until(b'\n', &mut line)? > 0 && names.len() < wanted.len() {
        if let Some((uid, name)) = user(&line).filter(|(uid, _)| wanted.contains(uid)) {
            names.entry(uid).or_insert_with(|| name.into());
        }
        line.clear();
    }
    Ok(names)
}

fn user(line: &[u8]) -> Option<(u32, &[u8])> {
    let mut fields = line.split(|byte| *byte == b':');
    let (name, _password, uid) = (fields.next()?, fields.next()?, fields.next()?);
    let is_name =
        !name.is_empty() && name.len() <= NAME && !name.starts_with(b"+") && !name.starts_with(b"-");
    is_name.then_some((std::str::from_utf8(uid).ok()?.parse().ok()?, name))
}

/// Asks for the names of users in a helper, and uses the answers that come in time.
fn ask(
    wanted: BTreeSet<u32>,
    patience: Duration,
    name: impl Fn(u32) -> Option<Vec<u8>>,
) -> Result<BTreeMap<u32, Text>, Errno> {
    let wanted: Vec<u32> = wanted.into_iter().take(ASKED).collect();
    let mut names = BTreeMap::new();
    if wanted.is_empty() || cfg!(target_feature = "crt-static") {
        return Ok(names);
    }
    let end = Instant::now() + patience;
    let work = |channel: &mut Channel| {
        // An empty message means a user without a name.
        wanted.iter().all(|uid| channel.send(&name(*uid).unwrap_or_default()));
    };
    let mut helper = again(|| Helper::start(&[], work))?;
    let mut asked = wanted.iter();
    while asked.len() > 0 {
        match helper.receive() {
            Ok(Some(answer)) => {
                let uid = asked.next().copied();
                let is_name = !answer.is_empty() && answer.len() <= NAME;
                names.extend(uid.filter(|_| is_name).map(|uid| (uid, answer.into())));
            }
            Ok(None) if Instant::now() < end => {
                wait(std::iter::once(&helper), end.saturating_duration_since(Instant::now()));
            }
            // It is silent, or a module of the service ended it.
            Ok(None) | Err(_) => break,
        }
    }
    Ok(names)
}

/// The name that the C library's name service has for a user. Its errors say as often as
/// not that there is none (getpwuid_r(3)).
#[cfg(not(target_feature = "crt-static"))]
fn name_service(uid: u32) -> Option<Vec<u8>> {
    let user = nix::unistd::User::from_uid(uid.into()).ok()??;
    Some(user.name.into_bytes())
}

/// Without modules there is no name service.
#[cfg(target_feature = "crt-static")]
fn name_service(_: u32) -> Option<Vec<u8>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the first line about a user counts, and that malformed lines
    /// are ignored.
    #[test]
    fn lines() {
        let text = b"root:x:0:0::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\n+nis:x:7:7\n:x:8:8\nodd:x:-1:1\n\
                     \xff\xfe:x:9:9\nshort:x\nlast:x:10";
        let wanted: BTreeSet<u32> = (0..11).collect();
        let names = passwd(&text[..], &wanted).unwrap();
        let expected =
            [(0, Text::from(&b"root"[..])), (9, (&b"\xff\xfe"[..]).into()), (10, (&b"last"[..]).into())];
        assert_eq!(names, BTreeMap::from(expected));
        assert_eq!(passwd(&text[..], &BTreeSet::from([1])).unwrap(), BTreeMap::new());
    }

    /// Make sure that a name service that never answers costs no more than the time
    /// limit, and that its earlier answers are kept.
    #[test]
    fn silence() {
        let answer = |uid: u32| match uid {
            1 => Some(b"alice".to_vec()),
            2 => None,
            3 => Some(vec![b'x'; NAME + 1]),
            4 => Some(b"bob".to_vec()),
            _ => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
        };
        let started = Instant::now();
        let names = ask((1..7).collect(), Duration::from_secs(2), answer).unwrap();
        assert!(started.elapsed() < Duration::from_secs(30));
        let expected = [(1, Text::from(&b"alice"[..])), (4, (&b"bob"[..]).into())];
        assert_eq!(names, BTreeMap::from(expected));
        // One that ends it, as a module that crashes would.
        assert_eq!(ask((1..7).collect(), PATIENCE, |_| panic!("a test")), Ok(BTreeMap::new()));
    }
}
