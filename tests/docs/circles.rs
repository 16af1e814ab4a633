//! Looks for circles of imports inside of the rooms of `src`: files and folders
//! beside each other that need each other, and files that need the `mod.rs` that
//! needs them.
//!
//! An import is followed to the file that defines what is imported, whatever
//! `mod.rs` publishes it on the way. Publishing alone (`pub use`) is no need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::architecture::{code, root, rust_files};

/// The path of a module below `src`: `["policy", "machine"]`. Empty for `lib.rs`.
type Name = Vec<String>;

/// For each neighbour in a folder: those that it needs, with an example.
type Needs = BTreeMap<String, BTreeMap<String, String>>;

/// What one file says of others.
#[derive(Default)]
struct Module {
    /// What each imported name stands for, and whether the import publishes it.
    imported: BTreeMap<String, (Name, bool)>,
    /// Modules of which everything is imported.
    globs: Vec<Name>,
    /// Paths outside of imports, such as `cgroup::observe`.
    paths: Vec<Name>,
    /// Single words outside of imports.
    words: BTreeSet<String>,
    /// Items defined here.
    defined: BTreeSet<String>,
}

/// Words before the name of an item.
const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

/// Splits code into words, `::`, and single other characters. Texts and the
/// places of `pub(in …)` are left out.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if rest.starts_with("pub(in ") {
            tokens.push("pub".to_owned());
            rest.find(')').map_or(rest.len(), |end| end + 1)
        } else if first == '"' {
            text_length(rest)
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else if rest.starts_with("'\"'") {
            3
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Bytes of the text in quotes that begins here.
fn text_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The paths of one `use`: `a::{b, c::d as e}` gives `a::b` and `a::c::d` named `e`.
fn use_paths(tokens: &[String], before: &[String], out: &mut Vec<(Name, Option<String>)>) {
    let (mut path, mut alias, mut at) = (before.to_vec(), None, 0);
    while at < tokens.len() {
        match tokens[at].as_str() {
            "::" => {}
            "{" => {
                let end = closing(tokens, at);
                let list = &tokens[at + 1..end];
                split_list(list).into_iter().for_each(|part| use_paths(part, &path, out));
                return;
            }
            "as" => {
                alias = tokens.get(at + 1).cloned();
                break;
            }
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    if path.len() > before.len() || !tokens.is_empty() {
        out.push((path, alias));
    }
}

fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

fn split_list(list: &[String]) -> Vec<&[String]> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, token) in list.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

fn parse(code: &str) -> Module {
    let tokens = tokens(code);
    let mut module = Module::default();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            let end = (at..tokens.len()).find(|end| tokens[*end] == ";").unwrap_or(tokens.len());
            let public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
            add_imports(&mut module, &tokens[at + 1..end], public);
            at = end;
        } else if ITEMS.contains(&tokens[at].as_str()) {
            let skip = if tokens.get(at + 1).is_some_and(|next| next == "!") { 2 } else { 1 };
            module.defined.extend(tokens.get(at + skip).cloned());
            at += 1;
        } else {
            at = add_path(&mut module, &tokens, at);
        }
    }
    module
}

fn add_imports(module: &mut Module, tokens: &[String], public: bool) {
    let mut paths = Vec::new();
    use_paths(tokens, &[], &mut paths);
    for (mut path, alias) in paths {
        match path.last().cloned() {
            Some(last) if last == "*" => {
                path.pop();
                module.globs.push(path);
            }
            Some(last) => {
                module.imported.insert(alias.unwrap_or(last), (path, public));
            }
            None => {}
        }
    }
}

/// Takes the path or word that begins here; says where the next token is.
fn add_path(module: &mut Module, tokens: &[String], from: usize) -> usize {
    let mut path = vec![tokens[from].clone()];
    let mut at = from + 1;
    while tokens.get(at).is_some_and(|token| token == "::") {
        match tokens.get(at + 1) {
            Some(word) if word.chars().all(|c| c.is_alphanumeric() || c == '_') => path.push(word.clone()),
            _ => break,
        }
        at += 2;
    }
    module.words.insert(path[0].clone());
    if path.len() > 1 {
        module.paths.push(path);
    }
    at
}

/// All modules of `src`, by their path.
struct Modules(BTreeMap<Name, Module>);

impl Modules {
    fn read(source: &Path) -> Self {
        let module = |file: &Path| {
            let inside = file.strip_prefix(source).expect("a file of src").with_extension("");
            let mut name: Name = inside.iter().map(|part| part.to_str().expect("text").to_owned()).collect();
            let is_folder = name.last().is_some_and(|last| last == "mod") || name == ["lib"];
            if is_folder {
                name.pop();
            }
            (name, parse(&code(file)))
        };
        let files = rust_files(source);
        let named = |file: &&std::path::PathBuf, name: &str| file.file_name().is_some_and(|own| own == name);
        let files = files.iter().filter(|file| !named(file, "tests.rs") && !named(file, "main.rs"));
        Self(files.map(|file| module(file)).collect())
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
fn circles(mut needs: Needs) -> Needs {
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
    let modules = Modules::read(&root().join("src"));
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
    let modules = Modules::read(&root().join("src"));
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
    let modules = Modules(files.iter().map(|(file, code)| (name(file), parse(code))).collect());
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
