//! Functions about the server and the session.

use super::super::constants::{DATABASE, FIRST_SPACE_OID, SERVER_VERSION, TEMPORARY_OID};
use super::super::value::Value;
use super::Takes::{Int, Name, Text};
use super::{Call, Definition, Gives, one, volatile};
use crate::error::Error;
use cellar_instance::session::Order;

type Answer = Result<Value, Error>;

pub(super) static ALL: &[Definition] = &[
    one("version", &[&[]], Gives::Text, version),
    one("current_database", &[&[]], Gives::Text, database),
    one("current_catalog", &[&[]], Gives::Text, database),
    one("current_user", &[&[]], Gives::Text, user),
    one("session_user", &[&[]], Gives::Text, session_user),
    one("current_role", &[&[]], Gives::Text, user),
    one("user", &[&[]], Gives::Text, user),
    one("getdatabaseencoding", &[&[]], Gives::Text, encoding),
    one("pg_client_encoding", &[&[]], Gives::Text, encoding),
    one("pg_encoding_to_char", &[&[Int]], Gives::Text, encoding_name),
    one("pg_char_to_encoding", &[&[Text]], Gives::Int, encoding_number),
    one("pg_backend_pid", &[&[]], Gives::Int, session),
    volatile(one("pg_cancel_backend", &[&[Int]], Gives::Bool, cancel)),
    volatile(one("pg_terminate_backend", &[&[Int], &[Int, Int]], Gives::Bool, terminate)),
    one("pg_is_in_recovery", &[&[]], Gives::Bool, no),
    one("pg_is_other_temp_schema", &[&[Name]], Gives::Bool, no),
    one("pg_my_temp_schema", &[&[]], Gives::Oid, temporary),
    one("pg_postmaster_start_time", &[&[]], Gives::Time, began),
    one("pg_conf_load_time", &[&[]], Gives::Time, began),
    one("inet_server_addr", &[&[]], Gives::Text, none),
    one("inet_server_port", &[&[]], Gives::Int, none),
    one("inet_client_addr", &[&[]], Gives::Text, none),
    one("inet_client_port", &[&[]], Gives::Int, none),
    one("pg_tablespace_location", &[&[Name]], Gives::Text, location),
    one("pg_tablespace_size", &[&[Name]], Gives::Long, none),
    one("pg_database_size", &[&[Name]], Gives::Long, database_size),
];

/// The number of the encoding UTF8.
const UTF8: i64 = super::super::constants::UTF8;

fn none(_: &Call<'_>) -> Answer {
    Ok(Value::Null)
}

fn no(_: &Call<'_>) -> Answer {
    Ok(false.into())
}

/// Clients look for PostgreSQL's version in it: the one whose catalogs these are.
fn version(_: &Call<'_>) -> Answer {
    let own = env!("CARGO_PKG_VERSION");
    Ok(format!("PostgreSQL {SERVER_VERSION} (Cellar {own})").into())
}

fn database(_: &Call<'_>) -> Answer {
    Ok(DATABASE.into())
}

fn user(call: &Call<'_>) -> Answer {
    Ok(call.ask.settings.now().role.as_ref().into())
}

fn session_user(call: &Call<'_>) -> Answer {
    Ok(call.ask.settings.now().session_role.as_ref().into())
}

fn encoding(_: &Call<'_>) -> Answer {
    Ok("UTF8".into())
}

fn encoding_name(call: &Call<'_>) -> Answer {
    Ok(match call.int(0) {
        Some(UTF8) => "UTF8".into(),
        _ => "".into(),
    })
}

fn encoding_number(call: &Call<'_>) -> Answer {
    let is_utf8 = ["utf8", "utf-8", "unicode"].contains(&call.text(0).to_lowercase().as_str());
    Ok(Value::Int(if is_utf8 { UTF8 } else { -1 }))
}

fn session(call: &Call<'_>) -> Answer {
    Ok(call.ask.host.rows().map(|rows| i64::from(rows.session().sid())).into())
}

fn cancel(call: &Call<'_>) -> Answer {
    order(call, Order::Cancel, "cancel query")
}

fn terminate(call: &Call<'_>) -> Answer {
    order(call, Order::End, "terminate process")
}

/// Sends an order to another session: false if there is no such user session.
fn order(call: &Call<'_>, order: Order, what: &str) -> Answer {
    let Some(rows) = call.ask.host.rows() else { return Ok(false.into()) };
    let sessions = rows.database().instance().sessions();
    let sid = call.int(0).and_then(|sid| u32::try_from(sid).ok());
    let Some((sid, user)) = sid.and_then(|sid| Some((sid, sessions.user_of(sid)?))) else {
        return Ok(false.into());
    };
    let own = call.ask.settings.now();
    if !own.is_superuser && *own.role != *user {
        let text = format!("permission denied to {what}");
        let next = format!("the session is of the role {user}: that, or a superuser, may do it");
        return Err(Error::new(1031, "42501", text).next(next));
    }
    Ok(sessions.order(sid, order).into())
}

fn temporary(call: &Call<'_>) -> Answer {
    let has_own = call.snapshot.schema(TEMPORARY_OID).is_some();
    Ok(Value::Oid(if has_own { TEMPORARY_OID } else { 0 }))
}

/// The first session of an instance is its own.
fn began(call: &Call<'_>) -> Answer {
    let Some(rows) = call.ask.host.rows() else { return Ok(Value::Null) };
    let all = rows.database().instance().sessions().rows().into_iter();
    let first = all.map(|session| session.logon_time.unix_nanos).min();
    Ok(first
        .map_or(Value::Null, |nanos| Value::Time(i64::try_from(nanos / 1_000).unwrap_or(i64::MAX))))
}

fn location(call: &Call<'_>) -> Answer {
    let at = call.oid(0).and_then(|oid| oid.checked_sub(FIRST_SPACE_OID));
    let at = at.and_then(|at| usize::try_from(at).ok());
    let group = at.and_then(|at| call.ask.host.groups().into_iter().nth(at));
    Ok(group.map_or_else(String::new, |group| format!("+{group}")).into())
}

/// The size of columnar tables, and of heap tables as far as it is known.
fn database_size(call: &Call<'_>) -> Answer {
    use super::super::object::Kind;
    let bytes = call.snapshot.objects.iter().map(|object| match object.kind {
        Kind::Columnar { bytes, .. } => i64::try_from(bytes).unwrap_or(i64::MAX),
        Kind::Heap => call.ask.size(object.oid).unwrap_or(0),
        _ => 0,
    });
    Ok(Value::Int(bytes.fold(0, i64::saturating_add)))
}
