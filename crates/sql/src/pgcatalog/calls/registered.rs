//! The types regclass, regtype and their kin: oids of objects that are written as their names.

use super::super::definition;
use super::super::rows::language::all_functions;
use super::super::types;
use super::super::value::Value;
use super::Takes::{Name, Text};
use super::{Call, Definition, Gives, one};
use crate::error::Error;

type Answer = Result<Value, Error>;

/// From a text to the oid of an object, which must exist; `to_..`: NULL if it does not; `.._out`: its name.
pub(super) static ALL: &[Definition] = &[
    one("regclass_in", &[&[Name]], Gives::Oid, |call| in_number(call, class, "42P01", "relation")),
    one("regtype_in", &[&[Name]], Gives::Oid, |call| in_number(call, of_type, "42704", "type")),
    one("regproc_in", &[&[Name]], Gives::Oid, |call| {
        in_number(call, function, "42883", "function")
    }),
    one("regnamespace_in", &[&[Name]], Gives::Oid, |call| {
        in_number(call, schema, "3F000", "schema")
    }),
    one("regrole_in", &[&[Name]], Gives::Oid, |call| in_number(call, role, "42704", "role")),
    one("regany_in", &[&[Name]], Gives::Oid, |call| in_number(call, nothing, "42704", "object")),
    one("to_regclass", &[&[Text]], Gives::Oid, |call| Ok(class(call).into())),
    one("to_regtype", &[&[Text]], Gives::Oid, |call| Ok(of_type(call).into())),
    one("to_regproc", &[&[Text]], Gives::Oid, |call| Ok(function(call).into())),
    one("to_regnamespace", &[&[Text]], Gives::Oid, |call| Ok(schema(call).into())),
    one("to_regrole", &[&[Text]], Gives::Oid, |call| Ok(role(call).into())),
    one("regclass_out", &[&[Name]], Gives::Text, class_name),
    one("regtype_out", &[&[Name]], Gives::Text, type_name),
    one("regproc_out", &[&[Name]], Gives::Text, function_name),
    one("regnamespace_out", &[&[Name]], Gives::Text, schema_name),
    one("regrole_out", &[&[Name]], Gives::Text, role_name),
    one("regany_out", &[&[Name]], Gives::Text, |call| Ok(number_text(call))),
];

fn in_number(
    call: &Call<'_>,
    find: fn(&Call<'_>) -> Option<u32>,
    sqlstate: &'static str,
    word: &str,
) -> Answer {
    if let Some(oid) = call.oid(0) {
        return Ok(oid.into());
    }
    let text = call.text(0);
    if text == "-" {
        return Ok(Value::Oid(0));
    }
    let found = find(call);
    let wrong = || {
        let next = "ask for what there is in pg_class, pg_type, pg_proc, pg_namespace, pg_roles";
        Error::new(942, sqlstate, format!("{word} \"{text}\" does not exist")).next(next)
    };
    Ok(found.ok_or_else(wrong)?.into())
}

/// A name without quotes and without the prefix pg_catalog.
fn plain(text: &str) -> String {
    let text = text.trim();
    let text = text.strip_prefix("pg_catalog.").unwrap_or(text);
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => text.to_lowercase(),
    }
}

fn class(call: &Call<'_>) -> Option<u32> {
    call.ask.object(call.snapshot, call.text(0)).map(|object| object.oid)
}

fn of_type(call: &Call<'_>) -> Option<u32> {
    let known = types::named(call.text(0)).map(|own| own.oid);
    known.or_else(|| call.snapshot.enum_named(call.text(0)))
}

fn function(call: &Call<'_>) -> Option<u32> {
    let own = plain(call.text(0));
    let name = own.split('(').next().unwrap_or_default().trim();
    all_functions().iter().find(|function| function.name == name).map(|function| function.oid)
}

fn schema(call: &Call<'_>) -> Option<u32> {
    call.snapshot.schema_named(&plain(call.text(0))).map(|schema| schema.oid)
}

fn role(call: &Call<'_>) -> Option<u32> {
    call.ask.catalog().role(&plain(call.text(0))).map(|(oid, _)| oid)
}

fn nothing(_: &Call<'_>) -> Option<u32> {
    None
}

/// An oid that belongs to no object, as PostgreSQL writes it.
fn number_text(call: &Call<'_>) -> Value {
    match call.oid(0) {
        Some(0) => "-".into(),
        Some(oid) => oid.to_string().into(),
        None => call.text(0).into(),
    }
}

fn class_name(call: &Call<'_>) -> Answer {
    let found = call.oid(0).and_then(|oid| call.snapshot.object(oid));
    let name = found.map(|object| definition::short_name(call.snapshot, object));
    Ok(name.map_or_else(|| number_text(call), Value::from))
}

fn type_name(call: &Call<'_>) -> Answer {
    let is_known =
        |oid: &u32| types::by_oid(*oid).is_some() || call.snapshot.enum_type(*oid).is_some();
    let found = call.oid(0).filter(is_known);
    Ok(found.map_or_else(|| number_text(call), |oid| call.snapshot.format_type(oid, None).into()))
}

fn function_name(call: &Call<'_>) -> Answer {
    let found = all_functions().iter().find(|own| Some(own.oid) == call.oid(0));
    Ok(found.map_or_else(|| number_text(call), |own| own.name.into()))
}

fn schema_name(call: &Call<'_>) -> Answer {
    let found = call.oid(0).and_then(|oid| call.snapshot.schema(oid));
    let name = found.map(|schema| definition::quoted(&schema.name));
    Ok(name.map_or_else(|| number_text(call), Value::from))
}

fn role_name(call: &Call<'_>) -> Answer {
    let catalog = call.ask.catalog();
    let name = call.oid(0).and_then(|oid| catalog.role_name(oid)).map(definition::quoted);
    Ok(name.map_or_else(|| number_text(call), Value::from))
}
