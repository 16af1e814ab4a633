//! Names of the users whose processes events are about.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::observation::Text;
use crate::observe::{self, Options};
use crate::report::EventProcess;

/// Users that are remembered at most; then all are forgotten.
const KEPT: usize = 4096;
/// How long a user's name is kept, or that there is none.
const FRESH: Duration = Duration::from_secs(300);
/// Looking for names takes at most this part of the time: a name service may be
/// slow, and users decide in how many user namespaces their processes run.
const SHARE: u32 = 20;

/// The names of users that have been looked up.
#[derive(Debug)]
pub(in crate::commands) struct Users {
    options: Options,
    names: HashMap<u32, (Instant, Option<Text>)>,
    next: Instant,
}

impl Users {
    /// Nothing found out yet.
    pub(in crate::commands) fn new(options: Options) -> Self {
        Self { options, names: HashMap::new(), next: Instant::now() }
    }

    /// Adds the name of its user to a process, if it can be found soon enough.
    pub(in crate::commands) fn add_name(&mut self, process: &mut EventProcess) {
        let Some(uid) = process.uid else { return };
        let name = self.name(uid);
        process.user = name.as_ref().map(|name| name.lossy().into_owned());
        process.user_hex = name.as_ref().and_then(Text::hex);
    }

    fn name(&mut self, uid: u32) -> Option<Text> {
        let begun = Instant::now();
        let known = self.names.get(&uid);
        if let Some((_, name)) = known.filter(|(at, _)| at.elapsed() < FRESH || begun < self.next) {
            return name.clone();
        }
        if begun < self.next {
            return None;
        }
        let found = observe::user_names(&self.options, BTreeSet::from([uid]));
        let name = found.into_iter().next().map(|user| user.name);
        self.next = Instant::now() + begun.elapsed() * (SHARE - 1);
        if self.names.len() >= KEPT {
            self.names.clear();
        }
        self.names.insert(uid, (begun, name.clone()));
        name
    }
}
