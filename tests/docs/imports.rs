//! What a file of `src` says of other files: its imports, and the paths in its code.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::UseTree;

/// A path in parts: `["policy", "machine"]`.
pub(crate) type Name = Vec<String>;

/// What one file says of others.
#[derive(Default)]
pub(crate) struct Module {
    /// What each imported name stands for, and whether the import publishes it.
    pub(crate) imported: BTreeMap<String, (Name, bool)>,
    /// Modules of which everything is imported.
    pub(crate) globs: Vec<Name>,
    /// Paths outside of imports, such as `cgroup::observe`.
    pub(crate) paths: Vec<Name>,
    /// Single words, and first words of paths, outside of imports.
    pub(crate) words: BTreeSet<String>,
    /// Items defined here.
    pub(crate) defined: BTreeSet<String>,
}

/// Words before the name of an item.
const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

impl Module {
    pub(crate) fn parse(code: &str) -> Self {
        let mut module = Self::default();
        module.read(code.parse().expect("code of Rust"));
        module
    }

    /// Every path that is imported or used, in full.
    pub(crate) fn all_paths(&self) -> impl Iterator<Item = &Name> {
        self.imported.values().map(|(path, _)| path).chain(&self.globs).chain(&self.paths)
    }

    fn read(&mut self, code: TokenStream) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let (mut rest, mut is_public) = (tokens.as_slice(), false);
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(word) if word == "pub" => {
                    is_public = true;
                    rest = after_place(rest);
                    continue;
                }
                TokenTree::Ident(word) if word == "use" => {
                    if let Some((tree, after)) = use_tree(rest) {
                        self.import(&tree, Name::new(), is_public);
                        rest = after;
                    }
                }
                TokenTree::Ident(word) if ITEMS.iter().any(|item| word == item) => {
                    let name = rest.iter().find(|token| !is_mark(token, '!'));
                    self.defined.extend(name.map(TokenTree::to_string));
                }
                TokenTree::Ident(word) => rest = self.path(word.to_string(), rest),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            is_public = false;
        }
    }

    /// Takes what one import names: `a::{b, c::d as e}` has `a::b`, and `a::c::d` named `e`.
    fn import(&mut self, tree: &UseTree, mut path: Name, is_public: bool) {
        let (word, alias) = match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                return self.import(&step.tree, path, is_public);
            }
            UseTree::Group(list) => {
                return list.items.iter().for_each(|tree| self.import(tree, path.clone(), is_public));
            }
            UseTree::Glob(_) => return self.globs.push(path),
            UseTree::Name(last) => (&last.ident, &last.ident),
            UseTree::Rename(last) => (&last.ident, &last.rename),
        };
        if word != "self" {
            path.push(word.to_string());
        }
        let name = if alias == "self" { path.last().expect("a module").clone() } else { alias.to_string() };
        self.imported.insert(name, (path, is_public));
    }

    /// Takes the path or word that begins with this one; gives what follows it.
    fn path<'a>(&mut self, first: String, mut rest: &'a [TokenTree]) -> &'a [TokenTree] {
        let mut path = vec![first];
        while let [colon, second, TokenTree::Ident(word), after @ ..] = rest
            && [colon, second].iter().all(|token| is_mark(token, ':'))
        {
            path.push(word.to_string());
            rest = after;
        }
        self.words.insert(path[0].clone());
        if path.len() > 1 {
            self.paths.push(path);
        }
        rest
    }
}

/// What a `use` names, and what follows it. None of a `use` that imports nothing:
/// `impl Trait + use<'a>`, or an element of SVG.
fn use_tree(rest: &[TokenTree]) -> Option<(UseTree, &[TokenTree])> {
    let end = rest.iter().position(|token| is_mark(token, ';'))?;
    let tree = syn::parse2(rest[..end].iter().cloned().collect()).ok()?;
    Some((tree, &rest[end..]))
}

/// What follows the `(in crate::room)` of a `pub`, which says only who may see it.
fn after_place(rest: &[TokenTree]) -> &[TokenTree] {
    match rest {
        [TokenTree::Group(_), after @ ..] => after,
        _ => rest,
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(own) if own.as_char() == mark)
}
