//! Looks for circles of imports inside of the rooms of `src`: files and folders
//! beside each other that need each other, and files that need the `mod.rs` that
//! needs them.
//!
//! An import is followed to the file that defines what is imported, whatever
//! `mod.rs` publishes it on the way. Publishing alone (`pub use`) is no need.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Module, Name};
use crate::source::{Source, sources};

/// Who needs whom, with an example.
pub(crate) type Needs = BTreeMap<String, BTreeMap<String, String>>;

/// The module that a file is: `["policy"]` of `policy/mod.rs`, none of `lib.rs`.
fn place(file: &str) -> Name {
    let mut place: Name = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    place.pop_if(|last| ["mod", "lib"].contains(&last.as_str()));
    place
}

/// All modules of `src`, by their path.
struct Modules(BTreeMap<Name, Module>);

impl Modules {
    fn read() -> Self {
        let of_program = |source: &Source| source.name != "main.rs";
        let module = |source: Source| (place(&source.name), Module::parse(&source.code));
        Self(sources().into_iter().filter(of_program).map(module).collect())
    }

    /// The module that defines what a path in a module stands for.
    fn definer(&self, from: &Name, path: &[String], depth: usize) -> Option<Name> {
        let mut at = from.clone();
        for (index, part) in path.iter().enumerate() {
            let mut child = at.clone();
            child.push(part.clone());
            match part.as_str() {
                "crate" if index == 0 => at.clear(),
                "self" if index == 0 => {}
                "super" => drop(at.pop()),
                _ if self.0.contains_key(&child) => at = child,
                _ => return self.item(&at, &path[index..], index == 0, depth),
            }
        }
        Some(at)
    }

    /// The module that defines the item which a module names so.
    fn item(&self, at: &Name, path: &[String], is_first: bool, depth: usize) -> Option<Name> {
        let module = self.0.get(at).filter(|_| depth < 20)?;
        if let Some((target, _)) = module.imported.get(&path[0]) {
            let whole = [target.as_slice(), &path[1..]].concat();
            return self.definer(at, &whole, depth + 1);
        }
        if module.defined.contains(&path[0]) {
            return Some(at.clone());
        }
        let of_glob = |glob: &Name| {
            let found = self.definer(at, &[glob.as_slice(), path].concat(), depth + 1)?;
            self.0.get(&found)?.defined.contains(&path[0]).then_some(found)
        };
        let found = module.globs.iter().find_map(of_glob);
        found.or_else(|| (!is_first).then(|| at.clone()))
    }

    /// The modules that a module needs, each with the path that says so.
    fn needs(&self, name: &Name) -> BTreeMap<Name, String> {
        let module = &self.0[name];
        let is_needed = |word: &str, public: bool| !public || module.words.contains(word);
        let imported = module.imported.iter().filter(|(word, (_, public))| is_needed(word, *public));
        let imported = imported.map(|(_, (path, _))| path);
        let is_inside = |path: &&Name| {
            let own_child = || [name.as_slice(), &path[..1]].concat();
            ["crate", "self", "super"].contains(&path[0].as_str()) || self.0.contains_key(&own_child())
        };
        let paths = imported.chain(&module.globs).chain(&module.paths).filter(is_inside);
        let found = paths.filter_map(|path| Some((self.definer(name, path, 0)?, path.join("::"))));
        found.filter(|(target, _)| target != name).collect()
    }

    /// Who needs whom among the files and folders of one folder, `mod` being the
    /// folder's own file.
    fn neighbours(&self, folder: &[String], needs: &BTreeMap<Name, BTreeMap<Name, String>>) -> Needs {
        let place = |name: &Name| {
            let inside = name.strip_prefix(folder)?;
            Some(inside.first().map_or_else(|| "mod".to_owned(), Clone::clone))
        };
        let mut found = Needs::new();
        for (name, targets) in needs {
            let Some(own) = place(name) else { continue };
            let entry = found.entry(own.clone()).or_default();
            for (target, path) in targets {
                if let Some(other) = place(target).filter(|other| *other != own) {
                    entry.insert(other, format!("{} has {path}", name.join("/")));
                }
            }
        }
        found
    }
}

/// Takes away all that need nobody, and all that nobody needs, until only circles
/// and what lies between them are left.
pub(crate) fn circles(mut needs: Needs) -> Needs {
    loop {
        let needed: BTreeSet<String> = needs.values().flat_map(|others| others.keys().cloned()).collect();
        let before = needs.len();
        needs.retain(|name, others| !others.is_empty() && needed.contains(name));
        if needs.len() == before {
            return needs;
        }
        let left: BTreeSet<String> = needs.keys().cloned().collect();
        needs.values_mut().for_each(|others| others.retain(|other, _| left.contains(other)));
    }
}

/// Make sure that no file or folder inside of a room needs one that needs it, at
/// any distance.
#[test]
fn files_of_a_room_have_no_circles() {
    let modules = Modules::read();
    let needs = modules.0.keys().map(|name| (name.clone(), modules.needs(name))).collect();
    let folders: BTreeSet<&[String]> =
        modules.0.keys().flat_map(|name| (1..name.len()).map(|length| &name[..length])).collect();
    let mut found = String::new();
    for folder in folders {
        for (name, others) in circles(modules.neighbours(folder, &needs)) {
            for (other, example) in others {
                found += &format!("src/{}: {name} needs {other}: {example}\n", folder.join("/"));
            }
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{found}");
}

/// Make sure that no file of `src` needs one that needs it, at any distance and
/// across all folders.
#[test]
fn files_have_no_circles() {
    let modules = Modules::read();
    let file = |name: &Name| name.join("/");
    let others = |name| modules.needs(name).into_iter().map(|(other, path)| (file(&other), path)).collect();
    let needs = modules.0.keys().map(|name| (file(name), others(name))).collect();
    let found = circles(needs);
    assert!(found.is_empty(), "circles of imports:\n{found:#?}");
}

/// The circles among modules of one folder, `mod` being the folder's own file.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = vec!["room".to_owned()];
    let name = |file: &str| match file {
        "mod" => folder.clone(),
        _ => [folder.clone(), vec![file.to_owned()]].concat(),
    };
    let modules = Modules(files.iter().map(|(file, code)| (name(file), Module::parse(code))).collect());
    let needs = modules.0.keys().map(|name| (name.clone(), modules.needs(name))).collect();
    circles(modules.neighbours(&folder, &needs)).into_keys().collect()
}

/// Make sure that circles are found however they are written, and that publishing
/// is none.
#[test]
fn circles_are_found() {
    let uses_b = "use super::b::B; pub struct A;";
    assert_eq!(circles_of(&[("mod", ""), ("a", uses_b), ("b", "pub fn f(_: super::a::A) {}")]), ["a", "b"]);
    assert_eq!(circles_of(&[("mod", ""), ("a", uses_b), ("b", "pub struct B;")]), [] as [&str; 0]);
    // Through a name that `mod.rs` publishes.
    let published = "pub use a::A; pub use b::B;";
    let b = "use crate::room::{A, c::{self}}; pub struct B;";
    assert_eq!(circles_of(&[("mod", published), ("a", "use super::B; pub struct A;"), ("b", b)]), ["a", "b"]);
    // A file that needs the `mod.rs` which calls it.
    let calls = "pub struct Error; fn go() { a::go(); }";
    assert_eq!(circles_of(&[("mod", calls), ("a", "pub fn go() -> super::Error {}")]), ["a", "mod"]);
    let offers = "pub use a::go; pub struct Error;";
    assert_eq!(circles_of(&[("mod", offers), ("a", "pub fn go() -> super::Error {}")]), [] as [&str; 0]);
    // What only says who may see it needs nobody.
    let seen = "pub(in crate::room) fn go() {}";
    assert_eq!(circles_of(&[("mod", calls), ("a", seen)]), [] as [&str; 0]);
}
