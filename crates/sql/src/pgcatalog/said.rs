//! Names in a statement: of objects, columns and vectors.

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, ObjectNamePart, Value};

use crate::call::call;
use crate::names::folded;

/// Columns that are vectors: they count from 0, and are written with spaces between the items. The last
/// is pgjdbc's name for one of them.
const VECTORS: [&str; 7] =
    ["indkey", "indoption", "indclass", "indcollation", "proargtypes", "partattrs", "i_indoption"];

/// Columns that contain oids of functions, which are written as their names.
const FUNCTIONS: [&str; 22] = [
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typmodin",
    "typmodout",
    "typanalyze",
    "typsubscript",
    "oprcode",
    "oprrest",
    "oprjoin",
    "aggfnoid",
    "aggtransfn",
    "aggfinalfn",
    "aggcombinefn",
    "aggserialfn",
    "aggdeserialfn",
    "amhandler",
    "amproc",
    "prosupport",
    "rngcanonical",
    "rngsubdiff",
];

/// Whether an expression is the oid of a function.
pub(super) fn is_function(expr: &Expr) -> bool {
    !matches!(expr, Expr::Cast { .. })
        && column(expr).is_some_and(|own| FUNCTIONS.contains(&own.as_str()))
}

/// The names of an object, in lower case unless quoted.
pub(super) fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).map(folded).collect()
}

/// The name of the column that an expression consists of.
pub(super) fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(own) => Some(folded(own)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        Expr::Nested(inner) => column(inner),
        Expr::Cast { expr, .. } => column(expr),
        _ => None,
    }
}

/// Whether an expression is a vector.
pub(super) fn is_vector(expr: &Expr) -> bool {
    column(expr).is_some_and(|own| VECTORS.contains(&own.as_str()))
}

/// A vector in its text form.
pub(super) fn vector_text(expr: &Expr) -> Expr {
    let space = Value::SingleQuotedString(" ".to_owned());
    call("array_to_string", vec![expr.clone(), Expr::Value(space.into())])
}
