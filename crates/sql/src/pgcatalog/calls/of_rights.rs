//! Functions that tell whether a role may do something.

use cellar_instance::catalog::{Catalog, EVERYBODY, OWNER_OID, Principal, Rights, name};

use super::super::acl::{Acls, WantedRights, may, may_system};
use super::super::constants::{DATABASE, DATABASE_OID};
use super::super::object::{Kind, Object};
use super::super::value::Value;
use super::Takes::{Name, Text};
use super::{Call, Definition, Gives, one};
use crate::error::Error;
use crate::settings::no_role;

type Answer = Result<Value, Error>;

pub(super) static ALL: &[Definition] = &[
    one("has_table_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, on_table),
    one("has_any_column_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, on_some),
    one("has_sequence_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, on_table),
    one(
        "has_column_privilege",
        &[&[Name, Name, Text], &[Name, Name, Name, Text]],
        Gives::Bool,
        on_column,
    ),
    one("has_schema_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, on_schema),
    one("has_database_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, on_database),
    one("has_type_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, on_type),
    one("has_function_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, yes),
    one("has_language_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, yes),
    one("has_tablespace_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, superuser),
    one("has_server_privilege", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, superuser),
    one("pg_has_role", &[&[Name, Text], &[Name, Name, Text]], Gives::Bool, has_role),
];

/// Everybody may use functions and languages.
fn yes(call: &Call<'_>) -> Answer {
    who(call, 2)?;
    Ok(true.into())
}

fn superuser(call: &Call<'_>) -> Answer {
    Ok(who(call, 2)?.is_superuser.into())
}

/// The role in question: the session's, if no role is named before the object. `plain`: the number of
/// arguments without a role.
fn who(call: &Call<'_>, plain: usize) -> Result<Principal, Error> {
    let catalog = call.ask.catalog();
    if call.args.len() > plain {
        return named(&catalog, call, 0);
    }
    let who = call.ask.settings.who(&catalog).map(|who| Principal::clone(&who));
    who.ok_or_else(|| no_role(&call.ask.settings.now().role))
}

/// A role by its name or oid. Nothing is known about a role that does not exist.
fn named(catalog: &Catalog, call: &Call<'_>, at: usize) -> Result<Principal, Error> {
    let nobody = |oid| Principal { oid, is_superuser: false, roles: [oid].into() };
    match (call.arg(at), call.oid(at)) {
        (Value::Text(text), None) if text == "public" => Ok(nobody(EVERYBODY)),
        (Value::Text(text), None) => {
            let text = unquoted(text);
            catalog.who(&text).ok_or_else(|| no_role(&text))
        }
        (_, Some(oid)) => Ok(catalog.who_is(oid).unwrap_or_else(|| nobody(oid))),
        _ => Ok(nobody(EVERYBODY)),
    }
}

fn unquoted(text: &str) -> String {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_owned(),
    }
}

/// The rights that a text lists, separated by commas.
fn asked(text: &str) -> Result<WantedRights, Error> {
    let each = text.split(',').map(|word| {
        let word = word.trim();
        let lower = word.to_ascii_lowercase();
        let (own, with_option) = match lower.strip_suffix("with grant option") {
            Some(own) => (own.trim_end(), true),
            None => (lower.as_str(), false),
        };
        match Rights::of_word(own) {
            Some(rights) => Ok((rights, with_option)),
            None => {
                Err(Error::new(990, "22023", format!("unrecognized privilege type: \"{word}\""))
                    .next("SELECT, INSERT, UPDATE, DELETE, USAGE, CREATE and the like"))
            }
        }
    });
    each.collect()
}

fn last_text(call: &Call<'_>) -> Result<WantedRights, Error> {
    asked(call.text(call.args.len().saturating_sub(1)))
}

/// The relation that an argument names; `None`: there is none with this oid.
fn relation<'c>(call: &'c Call<'_>, at: usize) -> Result<Option<&'c Object>, Error> {
    match call.arg(at) {
        Value::Int(number) => {
            Ok(u32::try_from(*number).ok().and_then(|oid| call.snapshot.object(oid)))
        }
        Value::Text(text) => match call.ask.object(call.snapshot, text) {
            Some(own) => Ok(Some(own)),
            None if call.oid(at).is_some() => Ok(None),
            None => Err(super::of_objects::no_object(text)),
        },
        _ => Ok(None),
    }
}

fn on_table(call: &Call<'_>) -> Answer {
    on_relation(call, false)
}

fn on_some(call: &Call<'_>) -> Answer {
    on_relation(call, true)
}

fn on_relation(call: &Call<'_>, any_column: bool) -> Answer {
    let (who, asked) = (who(call, 2)?, last_text(call)?);
    let Some(object) = relation(call, call.args.len() - 2)? else { return Ok(Value::Null) };
    if matches!(object.kind, Kind::System(_) | Kind::Ours) {
        return Ok(may_system(object.kind, &who, &asked).into());
    }
    let acls = Acls::of(call.ask, call.snapshot);
    let Some(table) = acls.table(object) else { return Ok(Value::Null) };
    let on_columns =
        || any_column && table.grants.columns.keys().any(|own| may(table, Some(own), &who, &asked));
    Ok((may(table, None, &who, &asked) || on_columns()).into())
}

fn on_column(call: &Call<'_>) -> Answer {
    let (who, asked) = (who(call, 3)?, last_text(call)?);
    let Some(object) = relation(call, call.args.len() - 3)? else { return Ok(Value::Null) };
    let at = call.args.len() - 2;
    let column = match (call.arg(at), call.int(at)) {
        (Value::Text(text), _) => object.columns.iter().find(|own| own.name == *text),
        (_, Some(number)) => {
            let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            at.and_then(|at| object.columns.get(at))
        }
        _ => None,
    };
    let Some(column) = column else {
        return match call.arg(at) {
            Value::Text(text) => {
                let of = &object.name;
                let text = format!("column \"{text}\" of relation \"{of}\" does not exist");
                Err(Error::new(904, "42703", text).next("see pg_attribute"))
            }
            _ => Ok(Value::Null),
        };
    };
    if matches!(object.kind, Kind::System(_) | Kind::Ours) {
        return Ok(may_system(object.kind, &who, &asked).into());
    }
    let acls = Acls::of(call.ask, call.snapshot);
    let table = acls.table(object);
    Ok(table.map(|table| may(table, Some(&column.name), &who, &asked)).into())
}

fn on_schema(call: &Call<'_>) -> Answer {
    let (who, asked) = (who(call, 2)?, last_text(call)?);
    let at = call.args.len() - 2;
    let found = match (call.arg(at), call.oid(at)) {
        (_, Some(oid)) => call.snapshot.schema(oid),
        (Value::Text(text), None) => {
            let text = unquoted(text);
            let found = call.snapshot.schema_named(&text);
            if found.is_none() {
                return Err(crate::names::resolve::no_schema(&text));
            }
            found
        }
        _ => None,
    };
    let Some(schema) = found else { return Ok(Value::Null) };
    let catalog = call.ask.catalog();
    Ok(match catalog.schema_object(&schema.name) {
        Some(own) => may(&own, None, &who, &asked),
        None if name::is_temporary(&schema.name) => true,
        // System relations: everybody may use them.
        None => who.is_superuser || asked.contains(&(Rights::USAGE, false)),
    }
    .into())
}

fn on_database(call: &Call<'_>) -> Answer {
    let (who, asked) = (who(call, 2)?, last_text(call)?);
    let at = call.args.len() - 2;
    match (call.arg(at), call.oid(at)) {
        (_, Some(oid)) if oid != DATABASE_OID => return Ok(Value::Null),
        (Value::Text(text), None) if unquoted(text) != DATABASE => {
            let text = format!("database \"{text}\" does not exist");
            return Err(Error::new(12514, "3D000", text).next("it is called cellar here"));
        }
        _ => {}
    }
    Ok(may(&call.ask.catalog().database_object(), None, &who, &asked).into())
}

fn on_type(call: &Call<'_>) -> Answer {
    let (who, asked) = (who(call, 2)?, last_text(call)?);
    let at = call.args.len() - 2;
    let oid = match call.oid(at) {
        Some(oid) => Some(oid),
        None => call.snapshot.enum_named(call.text(at)),
    };
    let own = oid.and_then(|oid| call.snapshot.enum_type(oid)).map(|(own, _)| own.oid);
    let catalog = call.ask.catalog();
    Ok(match own.and_then(|oid| catalog.enum_by_oid(oid)) {
        Some((table, _)) => may(table, None, &who, &asked),
        None => who.is_superuser || asked.contains(&(Rights::USAGE, false)),
    }
    .into())
}

fn has_role(call: &Call<'_>) -> Answer {
    let (who, catalog) = (who(call, 2)?, call.ask.catalog());
    let of = named(&catalog, call, call.args.len() - 2)?.oid;
    let mut found = false;
    for word in call.text(call.args.len() - 1).split(',') {
        let word = word.trim().to_ascii_lowercase();
        let (own, with_option) = match word.split_once(" with ") {
            Some((own, _)) => (own, true),
            None => (word.as_str(), false),
        };
        let is_admin = || {
            let known = catalog.role_name(who.oid).and_then(|name| catalog.role(name));
            known.is_some_and(|(_, role)| {
                role.member_of.iter().any(|own| own.of == of && own.is_admin)
            })
        };
        found |= match own {
            "usage" | "member" if with_option => who.is_superuser || is_admin(),
            "usage" => who.is_like(of),
            "member" => who.is_superuser || catalog.roles_of(who.oid, false).contains(&of),
            _ => {
                let text = format!("unrecognized privilege type: \"{own}\"");
                return Err(Error::new(990, "22023", text).next("USAGE or MEMBER"));
            }
        };
    }
    // The owner of the database has the rights of the role that stands for it.
    let stands_for = cellar_instance::catalog::PUBLIC_OWNER_OID;
    Ok((found || (of == stands_for && who.oid == OWNER_OID)).into())
}
