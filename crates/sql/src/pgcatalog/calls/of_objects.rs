//! Functions about objects: their definitions, sizes, comments and privileges.

use super::super::definition;
use super::super::object::{Kind, Object};
use super::super::rows::language::all_functions;
use super::super::rows::objects::{CLASS, CONSTRAINT, NAMESPACE, comments};
use super::super::types;
use super::super::value::Value;
use super::Takes::{Any, Bool, Int, Name, Text};
use super::{Call, Definition, Gives, of_null, one};
use crate::error::Error;

type Answer = Result<Value, Error>;

/// Oids of catalogs.
const TYPE: u32 = 1247;
const FUNCTION: u32 = 1255;

pub(super) static ALL: &[Definition] = &[
    one("pg_table_is_visible", &[&[Name]], Gives::Bool, is_visible),
    one("pg_type_is_visible", &[&[Name]], Gives::Bool, is_type),
    one("pg_function_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_operator_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_opclass_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_opfamily_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_collation_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_conversion_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_statistics_obj_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_ts_config_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_ts_dict_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_ts_parser_is_visible", &[&[Name]], Gives::Bool, yes),
    one("pg_ts_template_is_visible", &[&[Name]], Gives::Bool, yes),
    of_null(one("format_type", &[&[Name, Int]], Gives::Text, format_type)),
    one("pg_get_expr", &[&[Text, Name], &[Text, Name, Bool]], Gives::Text, expression),
    one("pg_get_viewdef", &[&[Name], &[Name, Any]], Gives::Text, view_text),
    one("pg_get_indexdef", &[&[Name], &[Name, Int, Bool]], Gives::Text, index_text),
    one("pg_get_constraintdef", &[&[Name], &[Name, Bool]], Gives::Text, constraint_text),
    one("pg_get_ruledef", &[&[Name], &[Name, Bool]], Gives::Text, none),
    one("pg_get_triggerdef", &[&[Name], &[Name, Bool]], Gives::Text, none),
    one("pg_get_functiondef", &[&[Name]], Gives::Text, none),
    one("pg_get_function_sqlbody", &[&[Name]], Gives::Text, none),
    one("pg_get_partkeydef", &[&[Name]], Gives::Text, none),
    // No table is a partition of another one.
    one("pg_partition_ancestors", &[&[Name]], Gives::Oid, none),
    one("pg_get_partition_constraintdef", &[&[Name]], Gives::Text, none),
    one("pg_get_statisticsobjdef", &[&[Name]], Gives::Text, none),
    one("pg_get_statisticsobjdef_columns", &[&[Name]], Gives::Text, none),
    one("pg_get_function_result", &[&[Name]], Gives::Text, function_result),
    one("pg_get_function_arguments", &[&[Name]], Gives::Text, function_arguments),
    one("pg_get_function_identity_arguments", &[&[Name]], Gives::Text, function_arguments),
    one("pg_get_serial_sequence", &[&[Text, Text]], Gives::Text, serial),
    one("pg_relation_size", &[&[Name], &[Name, Text]], Gives::Long, size),
    one("pg_table_size", &[&[Name]], Gives::Long, size),
    one("pg_total_relation_size", &[&[Name]], Gives::Long, size),
    one("pg_relation_filenode", &[&[Name]], Gives::Oid, file_number),
    one("pg_relation_is_publishable", &[&[Name]], Gives::Bool, is_publishable),
    of_null(one("obj_description", &[&[Name], &[Name, Text]], Gives::Text, description)),
    one("col_description", &[&[Name, Int]], Gives::Text, column_description),
    one("shobj_description", &[&[Name, Text]], Gives::Text, none),
    one("pg_get_userbyid", &[&[Name]], Gives::Text, user_name),
    one("acldefault", &[&[Text, Name]], Gives::Texts, acl_default),
    one("pg_describe_object", &[&[Name, Name, Int]], Gives::Text, described),
];

fn none(_: &Call<'_>) -> Answer {
    Ok(Value::Null)
}

/// There is one schema of what is not there for all.
fn yes(_: &Call<'_>) -> Answer {
    Ok(true.into())
}

/// The object that an argument refers to.
fn object<'c>(call: &'c Call<'_>, at: usize) -> Option<&'c Object> {
    match call.arg(at) {
        Value::Int(number) => call.snapshot.object(u32::try_from(*number).ok()?),
        Value::Text(text) => call.ask.object(call.snapshot, text),
        _ => None,
    }
}

fn is_visible(call: &Call<'_>) -> Answer {
    Ok(object(call, 0).map(|object| call.snapshot.is_visible(object)).into())
}

fn is_type(call: &Call<'_>) -> Answer {
    let Some(oid) = call.oid(0) else { return Ok(Value::Null) };
    if let Some((own, _)) = call.snapshot.enum_type(oid) {
        return Ok((!call.snapshot.enum_name(own).contains('.')).into());
    }
    Ok(types::by_oid(oid).map(|_| true).into())
}

fn format_type(call: &Call<'_>) -> Answer {
    Ok(call.oid(0).map(|oid| call.snapshot.format_type(oid, call.int(1))).into())
}

/// The catalogs store expressions as their text.
fn expression(call: &Call<'_>) -> Answer {
    Ok(definition::expression(call.snapshot, call.text(0)).into_owned().into())
}

fn view_text(call: &Call<'_>) -> Answer {
    let found = object(call, 0);
    Ok(found.and_then(|own| definition::of_view(call.snapshot, own.oid)).into())
}

fn index_text(call: &Call<'_>) -> Answer {
    let Some(index) = object(call, 0) else { return Ok(Value::Null) };
    let (number, is_pretty) = (call.int(1).unwrap_or(0), call.flag(2));
    Ok(definition::of_index(call.snapshot, index.oid, number, is_pretty).into())
}

fn constraint_text(call: &Call<'_>) -> Answer {
    let found = call.oid(0);
    Ok(found.and_then(|oid| definition::of_constraint(call.snapshot, oid, call.flag(1))).into())
}

fn function_result(call: &Call<'_>) -> Answer {
    let found = all_functions().iter().find(|own| Some(own.oid) == call.oid(0));
    let set = |gives_set| if gives_set { "SETOF " } else { "" };
    Ok(found.map(|own| format!("{}{}", set(own.gives_set), types::format(own.gives, None))).into())
}

fn function_arguments(call: &Call<'_>) -> Answer {
    let found = all_functions().iter().find(|own| Some(own.oid) == call.oid(0));
    let words = |takes: &[u32]| {
        let each: Vec<String> = takes.iter().map(|of| types::format(*of, None)).collect();
        each.join(", ")
    };
    Ok(found.map(|own| words(&own.takes)).into())
}

pub(super) fn no_object(text: &str) -> Error {
    Error::new(942, "42P01", format!("relation \"{text}\" does not exist"))
        .next("name its schema, or set search_path")
}

fn serial(call: &Call<'_>) -> Answer {
    let table = object(call, 0).ok_or_else(|| no_object(call.text(0)))?;
    let named = call.text(1);
    let at = table.columns.iter().position(|column| column.name == named);
    let at = at.ok_or_else(|| {
        let text = format!("column \"{named}\" of relation \"{}\" does not exist", table.name);
        Error::new(904, "42703", text)
    })?;
    let number = i64::try_from(at + 1).unwrap_or(i64::MAX);
    let is_of = |owner: &(u32, i64, bool)| owner.0 == table.oid && owner.1 == number;
    let own = call.snapshot.sequences.iter().find(|own| own.owner.as_ref().is_some_and(is_of));
    let own = own.and_then(|own| call.snapshot.object(own.oid));
    Ok(own.map(|own| definition::full_name(call.snapshot, own)).into())
}

fn size(call: &Call<'_>) -> Answer {
    let Some(object) = object(call, 0) else { return Ok(Value::Null) };
    Ok(match object.kind {
        Kind::Columnar { bytes, .. } => Value::Int(i64::try_from(bytes).unwrap_or(i64::MAX)),
        Kind::Heap => call.ask.size(object.oid).into(),
        // The pages of an index are not counted.
        Kind::Index => Value::Null,
        _ => Value::Int(0),
    })
}

fn file_number(call: &Call<'_>) -> Answer {
    Ok(object(call, 0).map(|object| object.oid).into())
}

fn is_publishable(call: &Call<'_>) -> Answer {
    Ok(object(call, 0).map(|own| matches!(own.kind, Kind::Heap | Kind::Columnar { .. })).into())
}

/// The oid of the catalog that a text names.
fn class_named(text: &str) -> Option<u32> {
    super::super::relations::find(false, text).map(|relation| relation.oid)
}

fn description(call: &Call<'_>) -> Answer {
    let class = match call.arg(1) {
        Value::Text(text) => class_named(text),
        _ => None,
    };
    let is_of_schema = call.args.len() == 2 && call.text(1) == "pg_namespace";
    let oid = match (call.oid(0), is_of_schema) {
        (Some(oid), _) => Some(oid),
        (None, true) => call.snapshot.schema_named(call.text(0)).map(|schema| schema.oid),
        (None, false) => object(call, 0).map(|object| object.oid),
    };
    let Some(oid) = oid else { return Ok(Value::Null) };
    let all = comments(call.snapshot);
    let mut own = all.into_iter().filter(|(_, of, number, _)| *of == oid && *number == 0);
    let own = own.find(|(in_class, ..)| class.is_none_or(|class| class == *in_class));
    Ok(own.map(|(.., text)| text).into())
}

fn column_description(call: &Call<'_>) -> Answer {
    let at = call.int(1).and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    let column = at.and_then(|at| object(call, 0)?.columns.get(at));
    Ok(column.and_then(|column| column.comment.as_deref()).into())
}

fn role_name(call: &Call<'_>, oid: u32) -> String {
    let name = call.ask.catalog().role_name(oid).map(str::to_owned);
    name.unwrap_or_else(|| format!("unknown (OID={oid})"))
}

fn user_name(call: &Call<'_>) -> Answer {
    Ok(call.oid(0).map(|oid| role_name(call, oid)).into())
}

/// The default rights of everybody and of the owner on an object of a kind.
fn acl_default(call: &Call<'_>) -> Answer {
    let (of_all, of_owner) = match call.text(0) {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        "p" => ("", "sA"),
        other => {
            let text = format!("unrecognized object type abbreviation: {other}");
            return Err(Error::new(1722, "22023", text).next("r is a table, s a sequence"));
        }
    };
    let owner =
        definition::quoted(&call.oid(1).map_or_else(String::new, |oid| role_name(call, oid)));
    let of = |who: &str, what: &str| (!what.is_empty()).then(|| format!("{who}={what}/{owner}"));
    Ok(Value::Texts(of("", of_all).into_iter().chain(of(&owner, of_owner)).collect()))
}

/// A description of a catalog object, in PostgreSQL's words.
fn described(call: &Call<'_>) -> Answer {
    let (Some(class), Some(oid)) = (call.oid(0), call.oid(1)) else { return Ok(Value::Null) };
    let snapshot = call.snapshot;
    let named = |own: &Object| {
        let word = match own.kind.letter() {
            "v" => "view",
            "S" => "sequence",
            "i" => "index",
            "f" => "foreign table",
            _ => "table",
        };
        format!("{word} {}", definition::short_name(snapshot, own))
    };
    Ok(match class {
        CLASS => {
            let own = snapshot.object(oid);
            let column = call.int(2).filter(|number| *number > 0).and_then(|number| {
                let at = usize::try_from(number - 1).ok()?;
                own?.columns.get(at)
            });
            let column = column.map(|own| format!("column {} of ", definition::quoted(&own.name)));
            own.map(|own| format!("{}{}", column.unwrap_or_default(), named(own))).into()
        }
        CONSTRAINT => {
            let check = snapshot.checks.iter().find(|own| own.oid == oid);
            let found = check.map(|own| (&own.name, own.table));
            let key = snapshot.index(oid).map(|own| (&own.name, own.table));
            let mut foreign = snapshot.foreign.iter();
            let foreign = foreign.find(|own| own.oid == oid).map(|own| (&own.name, own.table));
            let found = found
                .or(key)
                .or(foreign)
                .and_then(|(own, table)| Some((own, snapshot.object(table)?)));
            found
                .map(|(own, of)| format!("constraint {} on {}", definition::quoted(own), named(of)))
                .into()
        }
        NAMESPACE => snapshot
            .schema(oid)
            .map(|own| format!("schema {}", definition::quoted(&own.name)))
            .into(),
        TYPE => types::by_oid(oid).map(|_| format!("type {}", types::format(oid, None))).into(),
        FUNCTION => {
            let found = all_functions().iter().find(|own| own.oid == oid);
            found
                .map(|own| {
                    let takes: Vec<String> =
                        own.takes.iter().map(|of| types::format(*of, None)).collect();
                    format!("function {}({})", own.name, takes.join(","))
                })
                .into()
        }
        _ => Value::Null,
    })
}
