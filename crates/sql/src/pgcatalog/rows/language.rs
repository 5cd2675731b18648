//! Rows about the language: types, functions, operators and related objects. Those that PostgreSQL also
//! has have the same oids.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use arrow::datatypes::Field;

use super::super::constants::{
    BTREE_OID, COLUMNAR_OID, EXTENSION_OID, FILES_SERVER_OID, FILES_WRAPPER_OID, HEAP_OID,
    OWNER_OID, PG_CATALOG_OID, VIEWS_OID,
};
use super::super::snapshot::number_of;
use super::super::types;
use super::super::value::{Rows, Value};
use super::{Make, Seen};

/// Oid, name, kind, volatility, strict, set, result type, argument types.
static FUNCTIONS: &str = include_str!("../data/functions.txt");
/// Oid, name, kind, types of both operands and of the result, commutator, negator, function.
static OPERATORS: &str = include_str!("../data/operators.txt");
/// Oid, name, type, oid and name of the family, whether it is its type's own.
static CLASSES: &str = include_str!("../data/opclasses.txt");

/// The collations: all of them order texts by bytes.
const COLLATIONS: [(u32, &str, &str); 3] =
    [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")];

/// The language of built-in functions.
const INTERNAL_OID: u32 = 12;

pub(super) fn of(name: &str) -> Option<Make> {
    Some(match name {
        "pg_type" => all_types,
        "pg_enum" => labels,
        "pg_proc" => functions,
        "pg_operator" => operators,
        "pg_opclass" => classes,
        "pg_opfamily" => families,
        "pg_am" => methods,
        "pg_collation" => collations,
        "pg_language" => languages,
        "pg_extension" => extensions,
        "pg_foreign_server" => servers,
        "pg_foreign_data_wrapper" => wrappers,
        _ => return None,
    })
}

fn words(line: &'static str) -> Vec<&'static str> {
    line.split(' ').collect()
}

fn number(words: &[&str], at: usize) -> u32 {
    words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn word(words: &[&'static str], at: usize) -> &'static str {
    words.get(at).copied().unwrap_or_default()
}

/// The default operator classes of indexes, by type.
static CLASS_OF: LazyLock<BTreeMap<u32, u32>> = LazyLock::new(|| {
    let own = CLASSES.lines().map(words).filter(|words| word(words, 5) == "t");
    own.map(|words| (number(&words, 2), number(&words, 0))).collect()
});

/// The operator class of a type in an index.
pub(super) fn class_of(of: u32) -> u32 {
    let of = match types::by_oid(of) {
        // Its values are ordered as texts.
        Some(of) if of.name == "varchar" => 25,
        Some(of) if of.category == "A" => 2277,
        Some(of) => of.oid,
        None => 0,
    };
    CLASS_OF.get(&of).copied().unwrap_or(0)
}

/// PostgreSQL's operator classes that order texts by bytes, which is always the order here.
const BY_BYTES: [&str; 3] = ["text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"];

/// Whether an operator class has the order that the values of a column have here; `None`: there is no
/// such class.
pub(crate) fn fits_class(field: &Field, class: &str) -> Option<bool> {
    let (of, _) = types::of_field(field);
    let own = class_of(of);
    if BY_BYTES.contains(&class) {
        return Some(own == class_of(25));
    }
    let mut known = CLASSES.lines().map(words).filter(|words| word(words, 1) == class).peekable();
    known.peek()?;
    // The default class of a type, and that of a type with the same order.
    let of_same = |words: Vec<&'static str>| class_of(number(&words, 2)) == own;
    Some(own != 0 && known.any(of_same))
}

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub oid: u32,
    pub name: &'static str,
    pub kind: &'static str,
    pub volatility: &'static str,
    pub is_strict: bool,
    pub gives_set: bool,
    pub gives: u32,
    pub takes: Vec<u32>,
}

static ALL_FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
    let of_line = |line| {
        let words = words(line);
        let takes = word(&words, 7).split(',').filter_map(|word| word.parse().ok()).collect();
        Function {
            oid: number(&words, 0),
            name: word(&words, 1),
            kind: word(&words, 2),
            volatility: word(&words, 3),
            is_strict: word(&words, 4) == "t",
            gives_set: word(&words, 5) == "t",
            gives: number(&words, 6),
            takes,
        }
    };
    FUNCTIONS.lines().map(of_line).collect()
});

/// The functions that are shown.
pub(crate) fn all_functions() -> &'static [Function] {
    &ALL_FUNCTIONS
}

fn functions(_: &Seen<'_>, rows: &mut Rows) {
    for own in all_functions() {
        rows.add([
            ("oid", own.oid.into()),
            ("proname", own.name.into()),
            ("pronamespace", PG_CATALOG_OID.into()),
            ("proowner", OWNER_OID.into()),
            ("prolang", INTERNAL_OID.into()),
            ("procost", Value::Real(1.0)),
            ("prorows", Value::Real(if own.gives_set { 1000.0 } else { 0.0 })),
            ("prokind", own.kind.into()),
            ("proisstrict", own.is_strict.into()),
            ("proretset", own.gives_set.into()),
            ("provolatile", own.volatility.into()),
            ("proparallel", "s".into()),
            ("pronargs", Value::Int(i64::try_from(own.takes.len()).unwrap_or(0))),
            ("prorettype", own.gives.into()),
            ("proargtypes", Value::Oids(own.takes.clone())),
            ("prosrc", own.name.into()),
        ]);
    }
}

fn all_types(seen: &Seen<'_>, rows: &mut Rows) {
    for own in types::all() {
        let [input, output, receive, send, modifier_in, modifier_out] = own.functions;
        rows.add([
            ("oid", own.oid.into()),
            ("typname", own.name.into()),
            ("typnamespace", PG_CATALOG_OID.into()),
            ("typowner", OWNER_OID.into()),
            ("typlen", own.length.into()),
            ("typbyval", own.by_value.into()),
            ("typtype", own.kind.into()),
            ("typcategory", own.category.into()),
            ("typispreferred", own.is_preferred.into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typsubscript", own.subscript.into()),
            ("typelem", own.element.into()),
            ("typarray", own.array.into()),
            ("typinput", input.into()),
            ("typoutput", output.into()),
            ("typreceive", receive.into()),
            ("typsend", send.into()),
            ("typmodin", modifier_in.into()),
            ("typmodout", modifier_out.into()),
            ("typalign", own.alignment.into()),
            ("typstorage", own.storage.into()),
            ("typtypmod", Value::Int(-1)),
            ("typcollation", own.collation.into()),
        ]);
    }
    enum_types(seen, rows);
}

/// PostgreSQL's functions that read and write enums: in, out, receive, send.
const OF_ENUMS: [u32; 4] = [3504, 3507, 3532, 3533];
/// The same for arrays.
const OF_ARRAYS: [u32; 4] = [750, 751, 2400, 2401];

/// An enum type, and the type of its arrays.
fn enum_types(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    for own in &seen.snapshot.enums {
        let table = acls.by_oid(own.oid);
        let owner = table.map_or(OWNER_OID, |table| table.owner());
        let plain = (own.oid, own.name.clone(), "e", "E", (0, own.array), OF_ENUMS);
        let arrays = (own.array, format!("_{}", own.name), "b", "A", (own.oid, 0), OF_ARRAYS);
        for (oid, name, kind, category, (element, array), functions) in [plain, arrays] {
            let is_list = element != 0;
            let [input, output, receive, send] = functions;
            rows.add([
                ("oid", oid.into()),
                ("typname", name.into()),
                ("typnamespace", own.schema.into()),
                ("typowner", owner.into()),
                ("typacl", if is_list { Value::Null } else { acls.said(table) }),
                ("typlen", Value::Int(if is_list { -1 } else { 4 })),
                ("typbyval", (!is_list).into()),
                ("typtype", kind.into()),
                ("typcategory", category.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typelem", element.into()),
                ("typarray", array.into()),
                ("typinput", input.into()),
                ("typoutput", output.into()),
                ("typreceive", receive.into()),
                ("typsend", send.into()),
                ("typalign", "i".into()),
                ("typstorage", if is_list { "x" } else { "p" }.into()),
                ("typtypmod", Value::Int(-1)),
            ]);
        }
    }
}

/// The labels of enum types.
fn labels(seen: &Seen<'_>, rows: &mut Rows) {
    for own in &seen.snapshot.enums {
        for (label, place) in own.labels.iter().zip(1u16..) {
            rows.add([
                ("oid", number_of(own.oid, label).into()),
                ("enumtypid", own.oid.into()),
                ("enumsortorder", Value::Real(f64::from(place))),
                ("enumlabel", label.clone().into()),
            ]);
        }
    }
}

fn operators(_: &Seen<'_>, rows: &mut Rows) {
    for line in OPERATORS.lines() {
        let own = words(line);
        rows.add([
            ("oid", number(&own, 0).into()),
            ("oprname", word(&own, 1).into()),
            ("oprnamespace", PG_CATALOG_OID.into()),
            ("oprowner", OWNER_OID.into()),
            ("oprkind", word(&own, 2).into()),
            ("oprleft", number(&own, 3).into()),
            ("oprright", number(&own, 4).into()),
            ("oprresult", number(&own, 5).into()),
            ("oprcom", number(&own, 6).into()),
            ("oprnegate", number(&own, 7).into()),
            ("oprcode", number(&own, 8).into()),
        ]);
    }
}

fn classes(_: &Seen<'_>, rows: &mut Rows) {
    for line in CLASSES.lines() {
        let own = words(line);
        rows.add([
            ("oid", number(&own, 0).into()),
            ("opcmethod", BTREE_OID.into()),
            ("opcname", word(&own, 1).into()),
            ("opcnamespace", PG_CATALOG_OID.into()),
            ("opcowner", OWNER_OID.into()),
            ("opcfamily", number(&own, 3).into()),
            ("opcintype", number(&own, 2).into()),
            ("opcdefault", (word(&own, 5) == "t").into()),
        ]);
    }
}

fn families(_: &Seen<'_>, rows: &mut Rows) {
    let families: BTreeMap<u32, &str> =
        CLASSES.lines().map(words).map(|own| (number(&own, 3), word(&own, 4))).collect();
    for (oid, name) in families {
        rows.add([
            ("oid", oid.into()),
            ("opfmethod", BTREE_OID.into()),
            ("opfname", name.into()),
            ("opfnamespace", PG_CATALOG_OID.into()),
            ("opfowner", OWNER_OID.into()),
        ]);
    }
}

fn methods(_: &Seen<'_>, rows: &mut Rows) {
    for (oid, name, kind) in
        [(HEAP_OID, "heap", "t"), (COLUMNAR_OID, "columnar", "t"), (BTREE_OID, "btree", "i")]
    {
        rows.add([("oid", oid.into()), ("amname", name.into()), ("amtype", kind.into())]);
    }
}

fn collations(_: &Seen<'_>, rows: &mut Rows) {
    for (oid, name, provider) in COLLATIONS {
        let said = (oid != 100).then_some(name);
        rows.add([
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", PG_CATALOG_OID.into()),
            ("collowner", OWNER_OID.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", Value::Int(-1)),
            ("collcollate", said.into()),
            ("collctype", said.into()),
        ]);
    }
}

fn languages(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("oid", INTERNAL_OID.into()),
        ("lanname", "internal".into()),
        ("lanowner", OWNER_OID.into()),
    ]);
}

/// What every database of ours has beyond PostgreSQL's: as members of an extension they are not dumped.
fn extensions(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("oid", EXTENSION_OID.into()),
        ("extname", "cellar".into()),
        ("extowner", OWNER_OID.into()),
        ("extnamespace", VIEWS_OID.into()),
        ("extversion", env!("CARGO_PKG_VERSION").into()),
    ]);
}

fn servers(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("oid", FILES_SERVER_OID.into()),
        ("srvname", "files".into()),
        ("srvowner", OWNER_OID.into()),
        ("srvfdw", FILES_WRAPPER_OID.into()),
    ]);
}

fn wrappers(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("oid", FILES_WRAPPER_OID.into()),
        ("fdwname", "files".into()),
        ("fdwowner", OWNER_OID.into()),
    ]);
}
