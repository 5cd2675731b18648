//! The tree as its users see it, and laws over random changes.

use proptest::prelude::*;

use super::*;
use crate::codec::{Reader, Writer};

fn part(name: &str) -> PathPart {
    PathPart::new(name).unwrap()
}

fn parts(path: &str) -> Vec<PathPart> {
    path.split('/').filter(|p| !p.is_empty()).map(part).collect()
}

fn alias(file: u32) -> Alias {
    Alias { file: FileNo(file), incarnation: 1, system: false }
}

fn mkdir(tree: &mut Tree, path: &str) -> DirNo {
    for op in tree.plan_mkdir(&parts(path), true).unwrap() {
        op.apply(tree).unwrap();
    }
    tree.lookup_dir(&parts(path)).unwrap()
}

fn shown(tree: &Tree) -> Vec<String> {
    let walk = tree.walk(DirNo::ROOT).unwrap();
    walk.map(|(path, entry)| {
        let path: Vec<&str> = path.iter().map(|p| p.as_str()).collect();
        match entry {
            Entry::Dir(_) => format!("{}/", path.join("/")),
            Entry::File(alias) => format!("{}={}", path.join("/"), alias.file.0),
        }
    })
    .collect()
}

fn sample() -> Tree {
    let mut tree = Tree::new();
    let files = mkdir(&mut tree, "ORCL/DATAFILE");
    let mine = mkdir(&mut tree, "mine");
    let system = Alias { system: true, ..alias(256) };
    for op in [
        NameOp::Link { dir: mine, name: part("users"), alias: alias(256) },
        NameOp::Link { dir: files, name: part("users.256.1"), alias: system },
        NameOp::Link { dir: DirNo::ROOT, name: part("t.parquet"), alias: alias(257) },
    ] {
        assert_eq!(op.apply(&mut tree), Ok(Applied::default()));
    }
    tree
}

#[test]
fn directories_and_names() {
    let tree = sample();
    assert_eq!(
        shown(&tree),
        [
            "ORCL/",
            "ORCL/DATAFILE/",
            "ORCL/DATAFILE/users.256.1=256",
            "mine/",
            "mine/users=256",
            "t.parquet=257"
        ]
    );
    assert_eq!(tree.path_of(FileNo(256)), Some(parts("ORCL/DATAFILE/users.256.1")));
    assert_eq!(tree.path_of(FileNo(9)), None);
    assert_eq!(tree.lookup_file(&parts("mine/users")).unwrap().file, FileNo(256));
    let found = tree.find(&["*", "%", "users.*"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, parts("ORCL/DATAFILE/users.256.1"));
}

#[test]
fn errors_name_what_is_wrong() {
    let mut tree = sample();
    let text = |error: TreeError| error.to_string();
    assert_eq!(
        text(tree.lookup(&parts("mine/x")).unwrap_err()),
        "\"x\" does not exist in \"mine\""
    );
    assert_eq!(
        text(tree.lookup(&parts("t.parquet/x")).unwrap_err()),
        "\"t.parquet\" is a file, not a directory"
    );
    assert_eq!(
        text(tree.plan_mkdir(&parts("mine"), false).unwrap_err()),
        "\"mine\" exists already"
    );
    assert!(tree.plan_mkdir(&parts("a/b"), false).is_err());
    assert!(tree.plan_mkdir(&[], false).is_err());
    let mine = tree.lookup_dir(&parts("mine")).unwrap();
    assert_eq!(
        text(tree.plan_rmdir(mine, false).unwrap_err()),
        "directory \"mine\" holds 1 entries; remove them first, or use FORCE"
    );
    assert!(tree.plan_rmdir(DirNo::ROOT, true).is_err());
    let before = tree.clone();
    let orcl = tree.lookup_dir(&parts("ORCL")).unwrap();
    let below = tree.lookup_dir(&parts("ORCL/DATAFILE")).unwrap();
    for op in [
        NameOp::RmDir { dir: mine },
        NameOp::RmDir { dir: DirNo::ROOT },
        NameOp::MkDir { dir: mine, parent: orcl, name: part("x") },
        NameOp::Link { dir: mine, name: part("users"), alias: alias(1) },
        NameOp::Replace { dir: DirNo::ROOT, name: part("mine"), alias: alias(1) },
        NameOp::Unlink { dir: DirNo::ROOT, name: part("mine") },
        NameOp::Unlink { dir: DirNo(99), name: part("mine") },
        NameOp::Rename {
            from_dir: DirNo::ROOT,
            from: part("ORCL"),
            to_dir: below,
            to: part("x"),
            replace: true,
        },
        NameOp::Rename {
            from_dir: DirNo::ROOT,
            from: part("t.parquet"),
            to_dir: mine,
            to: part("users"),
            replace: false,
        },
    ] {
        assert!(op.apply(&mut tree).is_err(), "{op:?}");
        assert_eq!(tree, before);
    }
}

#[test]
fn replacing_says_what_was_replaced() {
    let mut tree = sample();
    let replace = NameOp::Replace { dir: DirNo::ROOT, name: part("t.parquet"), alias: alias(300) };
    assert_eq!(replace.apply(&mut tree), Ok(Applied { removed: Some(alias(257)) }));
    assert_eq!(tree.names_of(FileNo(257)).count(), 0);
    let mine = tree.lookup_dir(&parts("mine")).unwrap();
    let rename = NameOp::Rename {
        from_dir: DirNo::ROOT,
        from: part("t.parquet"),
        to_dir: mine,
        to: part("users"),
        replace: true,
    };
    assert_eq!(rename.apply(&mut tree), Ok(Applied { removed: Some(alias(256)) }));
    assert_eq!(tree.path_of(FileNo(300)), Some(parts("mine/users")));
    assert_eq!(tree.names_of(FileNo(256)).count(), 1, "its system name stays");
}

#[test]
fn forced_removal_takes_all_and_directories_move_whole() {
    let mut tree = sample();
    let rename = NameOp::Rename {
        from_dir: DirNo::ROOT,
        from: part("ORCL"),
        to_dir: tree.lookup_dir(&parts("mine")).unwrap(),
        to: part("old"),
        replace: false,
    };
    rename.apply(&mut tree).unwrap();
    assert_eq!(tree.path_of(FileNo(256)), Some(parts("mine/old/DATAFILE/users.256.1")));
    let mine = tree.lookup_dir(&parts("mine")).unwrap();
    let ops = tree.plan_rmdir(mine, true).unwrap();
    let removed: Vec<u32> = ops
        .iter()
        .filter_map(|op| op.apply(&mut tree).unwrap().removed)
        .map(|a| a.file.0)
        .collect();
    assert_eq!(removed, [256, 256]);
    assert_eq!(shown(&tree), ["t.parquet=257"]);
}

fn any_part() -> impl Strategy<Value = PathPart> {
    "[a-c]".prop_map(|name| part(&name))
}

fn any_op() -> impl Strategy<Value = NameOp> {
    let dir = || (0_u32..8).prop_map(DirNo);
    let alias = (0_u32..6, any::<u32>(), any::<bool>())
        .prop_map(|(file, incarnation, system)| Alias { file: FileNo(file), incarnation, system });
    prop_oneof![
        3 => (dir(), dir(), any_part())
            .prop_map(|(dir, parent, name)| NameOp::MkDir { dir, parent, name }),
        1 => dir().prop_map(|dir| NameOp::RmDir { dir }),
        2 => (dir(), any_part(), alias.clone())
            .prop_map(|(dir, name, alias)| NameOp::Link { dir, name, alias }),
        1 => (dir(), any_part(), alias)
            .prop_map(|(dir, name, alias)| NameOp::Replace { dir, name, alias }),
        1 => (dir(), any_part()).prop_map(|(dir, name)| NameOp::Unlink { dir, name }),
        2 => (dir(), any_part(), dir(), any_part(), any::<bool>()).prop_map(
            |(from_dir, from, to_dir, to, replace)| NameOp::Rename {
                from_dir, from, to_dir, to, replace
            }
        ),
    ]
}

fn encoded(tree: &Tree) -> Vec<u8> {
    let mut w = Writer::new();
    tree.encode(&mut w);
    w.into_bytes()
}

proptest! {
    #[test]
    fn replaying_the_recorded_changes_gives_the_same_tree(
        ops in proptest::collection::vec(any_op(), 0..60),
    ) {
        let mut tree = Tree::new();
        let mut log = Writer::new();
        for op in &ops {
            let before = tree.clone();
            match op.apply(&mut tree) {
                Ok(_) => op.encode(&mut log),
                Err(_) => prop_assert_eq!(&tree, &before, "a refused change changes nothing"),
            }
        }
        let mut replayed = Tree::new();
        let mut r = Reader::new(log.as_slice());
        while r.left() > 0 {
            NameOp::decode(&mut r).unwrap().apply(&mut replayed).unwrap();
        }
        prop_assert_eq!(&replayed, &tree);
        let bytes = encoded(&tree);
        let mut r = Reader::new(&bytes);
        prop_assert_eq!(&Tree::decode(&mut r).unwrap(), &tree);
        prop_assert_eq!(r.left(), 0);
        // Every entry is found by its path, and every file by its number.
        for (path, entry) in tree.walk(DirNo::ROOT).unwrap() {
            let path: Vec<PathPart> = path.into_iter().cloned().collect();
            prop_assert_eq!(tree.lookup(&path).unwrap().entry, entry);
            if let Entry::File(alias) = entry {
                prop_assert!(tree.path_of(alias.file).is_some());
            }
        }
    }

    #[test]
    fn decoding_anything_ends_in_a_value_or_an_error(
        noise in proptest::collection::vec(any::<u8>(), 0..80),
        ops in proptest::collection::vec(any_op(), 0..30),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut tree = Tree::new();
        for op in &ops {
            let _ = op.apply(&mut tree);
        }
        let mut bytes = encoded(&tree);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for bytes in [&noise, &bytes] {
            let _ = NameOp::decode(&mut Reader::new(bytes));
            if let Ok(tree) = Tree::decode(&mut Reader::new(bytes)) {
                let again = encoded(&tree);
                prop_assert_eq!(Tree::decode(&mut Reader::new(&again)), Ok(tree));
            }
        }
    }
}
