//! Object names with their schemas, as one text: the key by which the catalog and all layers above it
//! know an object.
//!
//! The key of an object in the schema `public` is its bare name, as it was before there were schemas. In
//! another schema the key is the schema, a separator that no name contains, and the name; the key of a
//! schema itself ends with the separator.

use std::borrow::Cow;

/// What is between a schema and a name.
pub const SEPARATOR: char = '\u{1f}';

/// The schema that is always there.
pub const PUBLIC: &str = "public";

/// The key of the database itself, for its own entry: no schema can have this name.
pub const DATABASE_KEY: &str = "pg_database\u{1f}cellar";

/// The prefix of the schemas of sessions.
const TEMPORARY: &str = "pg_temp_";

/// The key of an object.
pub fn key_of(schema: &str, name: &str) -> String {
    match schema {
        PUBLIC => name.to_owned(),
        _ => format!("{schema}{SEPARATOR}{name}"),
    }
}

/// The schema and the name of an object.
pub fn parts(key: &str) -> (&str, &str) {
    key.split_once(SEPARATOR).unwrap_or((PUBLIC, key))
}

/// The key of a schema itself.
pub fn schema_key(schema: &str) -> String {
    format!("{schema}{SEPARATOR}")
}

/// The schema whose key this is.
pub fn schema_of_key(key: &str) -> Option<&str> {
    key.strip_suffix(SEPARATOR)
}

/// The key of a role, which is in no schema.
pub fn role_key(role: &str) -> String {
    format!("{SEPARATOR}{role}")
}

/// The role whose key this is.
pub fn role_of_key(key: &str) -> Option<&str> {
    key.strip_prefix(SEPARATOR).filter(|role| !role.is_empty())
}

/// The key of another object in the schema of this one.
pub fn beside(key: &str, name: &str) -> String {
    key_of(parts(key).0, name)
}

/// The schema of objects that last as long as the session with this number.
pub fn temporary_schema(session: u64) -> String {
    format!("{TEMPORARY}{session}")
}

/// Whether the objects in a schema last only as long as a session.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMPORARY)
}

/// A key as text for people: with a point in place of the separator, and without the schemas of sessions.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(SEPARATOR) {
        return Cow::Borrowed(text);
    }
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(SEPARATOR) {
        let digits = before.trim_end_matches(|c: char| c.is_ascii_digit());
        match digits.strip_suffix(TEMPORARY) {
            Some(before) => made.push_str(before),
            None => {
                made.push_str(before);
                made.push('.');
            }
        }
        rest = behind;
    }
    made.push_str(rest);
    Cow::Owned(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_schema_and_a_name() {
        assert_eq!(key_of(PUBLIC, "t"), "t");
        assert_eq!(parts("t"), (PUBLIC, "t"));
        let key = key_of("s", "a.b");
        assert_eq!(parts(&key), ("s", "a.b"));
        assert_eq!(beside(&key, "c"), key_of("s", "c"));
        assert_eq!(schema_of_key(&schema_key("s")), Some("s"));
        assert_eq!(schema_of_key(&key), None);
        assert_eq!(role_of_key(&role_key("r")), Some("r"));
        assert_eq!((role_of_key(&key), schema_of_key(&role_key("r"))), (None, None));
    }

    #[test]
    fn texts_show_names_as_people_write_them() {
        let text = format!("\"{}\" and {}", key_of("s", "t"), key_of("pg_temp_12", "u"));
        assert_eq!(shown(&text), "\"s.t\" and u");
        assert_eq!(shown("t_1"), "t_1");
    }
}
