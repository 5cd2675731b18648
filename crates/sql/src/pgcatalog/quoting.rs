//! Names as written in statements: in quotes if necessary.

/// PostgreSQL's reserved words, which are names only in quotes.
const RESERVED: [&str; 77] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// A name as written in a statement.
pub(super) fn quoted(own: &str) -> String {
    let begins = own.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_plain = begins
        && own.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !RESERVED.contains(&own);
    match is_plain {
        true => own.to_owned(),
        false => format!("\"{}\"", own.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        for (own, said) in [("t", "t"), ("T", "\"T\""), ("a b", "\"a b\""), ("user", "\"user\"")] {
            assert_eq!(quoted(own), said);
        }
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert!(RESERVED.is_sorted());
    }
}
