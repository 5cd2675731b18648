//! The graph of a crate's modules: which file names what is in which other one.

use std::collections::{BTreeMap, BTreeSet};

/// Folders and file below `src`, without `mod`, `lib` and `main`.
pub type Module = Vec<String>;

/// Modules and those that they name.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The module of a file, by its path below `src`.
pub fn module_of(path: &str) -> Module {
    let whole = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut module: Module = whole.collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// The graph of the files of one crate, each with its text.
pub fn graph(files: &BTreeMap<Module, String>) -> Graph {
    files.iter().map(|(module, text)| (module.clone(), named(module, text, files))).collect()
}

fn named(module: &Module, text: &str, files: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let code = without_words(text);
    let paths = paths(&code);
    let resolved = paths.iter().filter_map(|path| resolve(module, path, files));
    resolved.filter(|other| other != module).collect()
}

/// A file's code: without comments, texts and its tests at the end.
fn without_words(text: &str) -> String {
    let mut code = String::new();
    let mut is_test = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if is_test && trimmed.starts_with("mod ") && trimmed.ends_with('{') {
            break;
        }
        is_test = trimmed.starts_with("#[cfg(") && trimmed.contains("test");
        let plain = trimmed.split("//").next().unwrap_or_default();
        // What is between quotes is no code.
        let outside = plain.split('"').step_by(2);
        code.extend(outside.flat_map(|part| [part, " "]));
        code.push('\n');
    }
    code
}

/// Every path in `use` and elsewhere that may lead to a module.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let is_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let tail = &rest[at + 4..];
        let end = tail.find(';').unwrap_or(tail.len());
        if !is_word {
            expand(&[], &tail[..end], &mut found);
        }
        rest = &tail[if is_word { 0 } else { end }..];
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in code.split(|c: char| !is_part(c)) {
        let parts: Vec<String> = word.split("::").map(str::to_owned).collect();
        if ["crate", "super", "self"].contains(&parts[0].as_str()) && parts.len() > 1 {
            found.push(parts);
        }
    }
    found
}

/// The paths of a use tree.
fn expand(before: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let parts = |path: &str| -> Vec<String> {
        path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let Some((head, body)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        found.push([before, &parts(path)].concat());
        return;
    };
    let before = [before, &parts(head)].concat();
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    let (mut depth, mut from) = (0u32, 0);
    for (at, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                let branch = body[from..at].trim();
                if !branch.is_empty() {
                    expand(&before, branch, found);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// The file that a path in `module` leads to.
fn resolve(module: &Module, path: &[String], files: &BTreeMap<Module, String>) -> Option<Module> {
    let (mut at, mut rest) = (module.clone(), path);
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Module::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        child => {
            at.push(child.to_owned());
            if !files.contains_key(&at) {
                return None;
            }
            rest = &path[1..];
        }
    }
    for part in rest {
        at.push(part.clone());
        if !files.contains_key(&at) {
            at.pop();
            break;
        }
    }
    files.contains_key(&at).then_some(at)
}

/// Modules that reach each other, where they are of more than one folder.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reached(graph, module))).collect();
    let mut found: Vec<BTreeSet<Module>> = Vec::new();
    for (module, others) in &reach {
        if found.iter().any(|circle| circle.contains(*module)) {
            continue;
        }
        let back = others.iter().filter(|other| reach[**other].contains(module));
        let circle: BTreeSet<Module> = back.map(|other| (*other).clone()).collect();
        let folders: BTreeSet<Module> = circle.iter().map(|one| folder(graph, one)).collect();
        if folders.len() > 1 {
            found.push(circle);
        }
    }
    found
}

fn reached<'g>(graph: &'g Graph, from: &Module) -> BTreeSet<&'g Module> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Module> = graph[from].iter().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(&graph[module]);
        }
    }
    seen
}

/// The folder of a module: its own, where it has one.
fn folder(graph: &Graph, module: &Module) -> Module {
    let has_own = graph.keys().any(|other| other.len() > module.len() && other.starts_with(module));
    match has_own {
        true => module.clone(),
        false => module[..module.len().saturating_sub(1)].to_vec(),
    }
}
