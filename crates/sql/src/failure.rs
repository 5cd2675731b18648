//! DataFusion's, Arrow's and the object store's errors as numbered ones.

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;

use crate::error::Error;
use crate::one_row::several_rows;

/// The numbered error for one of DataFusion's.
pub fn from_datafusion(error: &DataFusionError) -> Error {
    if let Some(ours) = ours(error) {
        return ours;
    }
    match error {
        DataFusionError::Context(_, e) | DataFusionError::Diagnostic(_, e) => from_datafusion(e),
        DataFusionError::Shared(e) => from_datafusion(e),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(e) => from_datafusion(e),
            None => internal(error),
        },
        DataFusionError::External(e) => from_any(e.as_ref()),
        DataFusionError::SchemaError(e, _) => from_schema(e),
        DataFusionError::ArrowError(e, _) => from_arrow(e),
        DataFusionError::ObjectStore(e) => from_store(e),
        DataFusionError::ParquetError(e) => from_parquet(&e.to_string()),
        DataFusionError::IoError(e) => Error::new(27072, "58030", format!("file I/O: {e}")),
        DataFusionError::ResourcesExhausted(m) => {
            Error::new(4030, "53200", format!("out of memory for this query: {}", first_line(m)))
                .next("raise memory_target, or ask for less at once")
        }
        DataFusionError::NotImplemented(m) if is_correlated(m) => Error::new(
            3001,
            "0A000",
            "not in this version: this subquery refers to a column outside where that cannot be a join",
        )
        .next("write it as a join with GROUP BY, or with row_number() OVER (PARTITION BY ..)"),
        DataFusionError::NotImplemented(m) if is_no_type(m) => {
            let name = m.rsplit(' ').next().unwrap_or_default();
            Error::new(902, "42704", format!("type \"{name}\" does not exist")).of_name([name])
        }
        DataFusionError::NotImplemented(m) if m.starts_with("Unsupported CAST from ") => {
            Error::new(932, "42846", first_line(&m.replacen("Unsupported CAST", "there is no cast", 1)))
                .next("cast it to text, and that to the type")
        }
        DataFusionError::NotImplemented(m) => {
            Error::new(3001, "0A000", format!("not in this version: {}", first_line(m)))
        }
        DataFusionError::Plan(m) if m.starts_with("Invalid function '") => no_function(m),
        DataFusionError::Plan(m) if m.contains("No function matches the given name") => {
            Error::new(6553, "42883", first_line(m)).next("cast its arguments: expression::type")
        }
        DataFusionError::Plan(m) | DataFusionError::Configuration(m) => {
            Error::new(900, plan_state(m), first_line(m))
        }
        DataFusionError::SQL(e, _) => Error::syntax(e.to_string()),
        DataFusionError::Execution(m) if m.contains("subquery returned more than one row") => {
            several_rows()
        }
        DataFusionError::Execution(m) if is_overflow(m) => overflow(m),
        DataFusionError::Execution(m) if is_argument(m) => argument(m),
        DataFusionError::Execution(m) => Error::new(70002, "XX000", first_line(m)),
        DataFusionError::ExecutionJoin(_) => {
            Error::new(1013, "57014", "the statement was stopped while it ran")
        }
        _ => internal(error),
    }
}

/// Whether a type is meant that does not exist: types that the parser knows are in capitals.
fn is_no_type(words: &str) -> bool {
    let name = words.strip_prefix("Unsupported SQL type ");
    name.is_some_and(|name| name.starts_with(|c: char| c.is_lowercase() || c == '_'))
}

/// The SQLSTATE of a planning error, for which DataFusion has only a text.
fn plan_state(words: &str) -> &'static str {
    const STATES: [(&str, &str); 12] = [
        ("must appear in the GROUP BY clause", "42803"),
        ("Aggregate function calls cannot be nested", "42803"),
        ("Aggregate functions are not allowed", "42803"),
        ("Order by column out of bounds", "42P10"),
        ("LIMIT must be >= 0", "2201W"),
        ("OFFSET must be >=", "2201X"),
        ("subquery should only return one column", "42601"),
        ("queries have different number of columns", "42601"),
        ("Cannot coerce arithmetic expression", "42883"),
        ("argument type for comparison operation", "42883"),
        ("argument type for logical boolean operation", "42804"),
        ("Cannot create filter with non-boolean predicate", "42804"),
    ];
    let found = STATES.iter().find(|(part, _)| words.contains(part));
    found.map_or("42000", |(_, state)| state)
}

/// The SQLSTATE for a text that is not a value of a type: for dates and times it depends on whether the
/// text is written like one.
fn text_state(words: &str) -> &'static str {
    let is_time = ["Date32", "Date64", "Timestamp", "timestamp", "Time64"];
    if !is_time.iter().any(|part| words.contains(part)) {
        return "22P02";
    }
    let text = words.split('\'').nth(1).unwrap_or_default();
    let parts: Vec<&str> = text.trim().splitn(3, '-').collect();
    let digits = |part: &&str| part.bytes().take_while(u8::is_ascii_digit).count() > 0;
    match parts.len() == 3 && parts.iter().all(digits) {
        true => "22008",
        false => "22007",
    }
}

/// The error for a function that does not exist; DataFusion suggests a similar one.
fn no_function(words: &str) -> Error {
    let mut quoted = words.split('\'').skip(1).step_by(2);
    let name = quoted.next().unwrap_or_default();
    let error = Error::new(904, "42883", format!("function \"{name}\" does not exist"));
    let error = error.of_function(name);
    match quoted.next() {
        Some(near) => error.next(format!("the nearest name is {near}")),
        None => error,
    }
}

/// Whether a plan could not be made because of a subquery, which DataFusion shows in its own form.
fn is_correlated(words: &str) -> bool {
    ["OuterReferenceColumn(", "ScalarSubquery(", "Exists(", "InSubquery("]
        .iter()
        .any(|form| words.contains(form))
}

/// The numbered error for one of a Parquet reader. If a filter that it evaluates fails, only the text of
/// Arrow's error reaches us.
fn from_parquet(text: &str) -> Error {
    if text.contains("ArithmeticOverflow(") {
        let what = text.split('"').nth(1).unwrap_or("in a condition");
        return from_arrow(&ArrowError::ArithmeticOverflow(what.to_owned()));
    }
    if text.contains("DivideByZero") {
        return from_arrow(&ArrowError::DivideByZero);
    }
    let message = format!("a Parquet file cannot be read: {}", without_prefix(text));
    Error::new(29913, "XX001", message).next("check the file; write it again if it was cut short")
}

fn internal(error: &DataFusionError) -> Error {
    Error::new(600, "XX000", first_line(&error.strip_backtrace()))
        .next("this is a defect: please report it with the statement")
}

/// Looks for an error of ours, or one we know, inside a boxed one.
pub(crate) fn from_any(error: &(dyn std::error::Error + 'static)) -> Error {
    if let Some(ours) = ours(error) {
        return ours;
    }
    if let Some(e) = error.downcast_ref::<DataFusionError>() {
        return from_datafusion(e);
    }
    if let Some(e) = error.downcast_ref::<object_store::Error>() {
        return from_store(e);
    }
    if let Some(e) = error.downcast_ref::<ArrowError>() {
        return from_arrow(e);
    }
    match below(error) {
        Some(source) => from_any(source),
        None => Error::new(70002, "XX000", first_line(&error.to_string())),
    }
}

/// A column's name as a statement may have it: with the table where one was given.
fn parts_of(field: &Column) -> impl Iterator<Item = &str> {
    let table = field.relation.as_ref().map(|relation| relation.table());
    table.into_iter().chain([&*field.name])
}

fn from_schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            if let Some(table) = &field.relation
                && valid_fields.iter().all(|own| own.relation.is_some())
                && !valid_fields.iter().any(|own| own.relation.as_ref() == Some(table))
            {
                let (name, message) = (table.table(), "is not among the tables of the statement");
                return Error::new(904, "42P01", format!("\"{name}\" {message}"))
                    .of_name([name, &field.name])
                    .next("name it in FROM, or by the other name that it has there");
            }
            let mut names: Vec<&str> = valid_fields.iter().map(|c| c.name.as_str()).collect();
            names.sort_by_key(|name| distance(name, &field.name));
            names.dedup();
            let message = format!("there is no column \"{}\"", field.name);
            let error = Error::new(904, "42703", message).of_name(parts_of(field));
            if names.is_empty() {
                return error;
            }
            let more = if names.len() > 8 { ", ..." } else { "" };
            names.truncate(8);
            error.next(format!("the columns here are {}{more}", names.join(", ")))
        }
        SchemaError::AmbiguousReference { field } => Error::new(
            918,
            "42702",
            format!("the column \"{}\" is in more than one of the tables", field.name),
        )
        .of_name(parts_of(field))
        .next(format!("say which: table.{}", field.name)),
        SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(957, "42701", format!("there are two columns \"{name}\""))
                .next("give one of them another name")
        }
        other => Error::new(900, "42000", other.to_string()),
    }
}

/// Whether a cast failed because a number is out of range for the other type. Arrow distinguishes that
/// from a text that is not a number only in the words of the message.
fn is_of_range(words: &str) -> bool {
    let quoted = words.strip_prefix("Cannot cast string '").and_then(|rest| rest.split_once('\''));
    if let Some((text, rest)) = quoted {
        if ["Date32", "Date64", "Timestamp", "Time64"].iter().any(|own| rest.contains(own)) {
            return false;
        }
        let digits = text.trim().trim_start_matches(['+', '-']);
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    }
    ["Can't cast value", "value of ", "Cannot cast to Decimal"]
        .iter()
        .any(|beginning| words.starts_with(beginning))
}

/// Whether a function of DataFusion failed because its result is out of range, which some report only in
/// the words of the message. Positions and sizes of texts are not numbers of the user's.
fn is_overflow(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    words.contains("overflow") && !words.contains("position") && !words.contains("size overflow")
}

/// Whether a function of DataFusion refused the value of an argument, which it reports only in the words
/// of the message.
fn is_argument(words: &str) -> bool {
    [
        "square root of a negative",
        "negative count",
        "negative substring length",
        "Unable to parse date from",
    ]
    .iter()
    .any(|part| words.contains(part))
}

fn argument(words: &str) -> Error {
    Error::new(1428, "22023", format!("argument out of range: {}", first_line(words)))
}

fn overflow(words: &str) -> Error {
    Error::new(1426, "22003", format!("numeric overflow: {}", first_line(words)))
}

/// The numbered error for one of Arrow's.
pub fn from_arrow(error: &ArrowError) -> Error {
    if let Some(ours) = ours(error) {
        return ours;
    }
    match error {
        ArrowError::DivideByZero => Error::new(1476, "22012", "division by zero"),
        ArrowError::ArithmeticOverflow(m) => overflow(m),
        ArrowError::ComputeError(m) if is_overflow(m) => overflow(m),
        ArrowError::ComputeError(m) if is_argument(m) => argument(m),
        ArrowError::InvalidArgumentError(m) if m.contains("too large to store in a Decimal") => {
            overflow(m)
        }
        ArrowError::CastError(m) if is_of_range(m) => overflow(m),
        ArrowError::CastError(m) | ArrowError::ParseError(m) => {
            let state = text_state(m);
            let number = if state == "22P02" { 1722 } else { 1861 };
            Error::new(number, state, first_line(m))
        }
        ArrowError::CsvError(m) => Error::new(29913, "22P04", first_line(m)),
        ArrowError::ExternalError(e) => from_any(e.as_ref()),
        ArrowError::MemoryError(m) => Error::new(4030, "53200", first_line(m)),
        other => Error::new(70002, "XX000", first_line(&other.to_string())),
    }
}

/// The numbered error for one of an object store's.
pub fn from_store(error: &object_store::Error) -> Error {
    if let Some(ours) = ours(error) {
        return ours;
    }
    match error {
        object_store::Error::NotFound { path, .. } => {
            Error::new(15012, "58P01", format!("there is no file \"{path}\""))
        }
        object_store::Error::AlreadyExists { path, .. } => {
            Error::new(15005, "58P02", format!("there is already a file \"{path}\""))
        }
        object_store::Error::PermissionDenied { path, .. } => {
            Error::new(15025, "42501", format!("no permission for \"{path}\""))
        }
        object_store::Error::InvalidPath { source } => {
            Error::new(15124, "22023", source.to_string())
        }
        other => of_system(other)
            .unwrap_or_else(|| Error::new(70003, "58030", first_line(&other.to_string()))),
    }
}

/// The operating system's error for a file.
fn of_system(error: &object_store::Error) -> Option<Error> {
    use std::io::ErrorKind as Kind;
    let first: &(dyn std::error::Error + 'static) = error;
    let system = std::iter::successors(Some(first), |e| below(*e))
        .find_map(|e| e.downcast_ref::<std::io::Error>())?;
    let text = first_line(&error.to_string());
    Some(match system.kind() {
        Kind::PermissionDenied => Error::new(15025, "42501", text)
            .next("give this user the right to read it, or run as its owner"),
        Kind::StorageFull | Kind::QuotaExceeded => {
            Error::new(70111, "53100", text).next("make room on that file system")
        }
        Kind::ReadOnlyFilesystem => {
            Error::new(70110, "25006", text).next("name a place that can be written")
        }
        _ => return None,
    })
}

/// The error below an error. What an [`std::io::Error`] carries is not what it returns as its source.
fn below<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    match error.downcast_ref::<std::io::Error>() {
        Some(e) => e.get_ref().map(|inner| inner as _),
        None => error.source(),
    }
}

/// The numbered error of ours at any depth under `error`: of this crate, the instance, a disk group or a
/// device. It knows more than the errors that wrap it.
pub(crate) fn ours(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    std::iter::successors(Some(error), |e| below(*e)).find_map(|e| {
        let of_group = || e.downcast_ref::<cellar_diskgroup::Error>().cloned();
        let of_instance = || e.downcast_ref::<cellar_instance::Error>().cloned();
        let at_hand = || e.downcast_ref::<Error>().cloned();
        at_hand()
            .or_else(|| of_instance().map(Error::from))
            .or_else(|| of_group().map(|e| cellar_instance::Error::from(e).into()))
    })
}

/// The part that the user can act on: no backtrace, one line.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    without_prefix(line).trim_end_matches('.').to_string()
}

fn without_prefix(line: &str) -> &str {
    let mut line = line;
    let prefixes = [
        "Error during planning: ",
        "Arrow error: ",
        "Parquet error: ",
        "External: ",
        "Compute error: ",
        "Execution error: ",
    ];
    for prefix in prefixes {
        line = line.strip_prefix(prefix).unwrap_or(line);
    }
    line
}

/// The edit distance from `a` to `b`.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().flat_map(char::to_lowercase).take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let change = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// An error of a Parquet file.
pub(crate) fn parquet_error(error: &ParquetError) -> Error {
    if let Some(ours) = ours(error) {
        return ours;
    }
    Error::new(29913, "XX001", format!("Parquet: {error}"))
}

/// An error of reading or writing a file.
pub(crate) fn io_error(error: &std::io::Error) -> Error {
    match error.get_ref() {
        Some(inner) => from_any(inner),
        None => Error::new(27072, "58030", format!("file I/O: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_error_survives_the_way_through_datafusion() {
        let ours = Error::new(15041, "53100", "disk group \"DATA\" has no room");
        let store = object_store::Error::Generic { store: "group", source: Box::new(ours.clone()) };
        let error = DataFusionError::Context(
            "writing".into(),
            Box::new(DataFusionError::ObjectStore(Box::new(store))),
        );
        assert_eq!(from_datafusion(&error), ours);
        let error = DataFusionError::External(Box::new(ours.clone()));
        assert_eq!(from_datafusion(&error), ours);
        let inner = DataFusionError::External(Box::new(ours.clone()));
        let error = DataFusionError::IoError(std::io::Error::other(inner));
        assert_eq!(from_datafusion(&error), ours);
    }

    #[test]
    fn the_error_of_a_disk_group_comes_through_with_its_number_and_next_step() {
        let full = cellar_diskgroup::Error::NoSpace {
            group: "DATA".into(),
            wanted_mb: 10,
            why: "0 extents fit".into(),
        };
        let store = object_store::Error::Generic { store: "disk group", source: full.into() };
        let parquet = parquet::errors::ParquetError::External(Box::new(store));
        let io = std::io::Error::other(parquet);
        let error = from_datafusion(&DataFusionError::IoError(io));
        assert_eq!((error.number, error.sqlstate), (15041, "53100"));
        assert!(error.to_string().contains("Next: drop files"), "{error}");
    }

    #[test]
    fn names_nearby_are_near() {
        assert_eq!(distance("lineitem", "lineitme"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("Orders", "orders"), 0);
    }
}
