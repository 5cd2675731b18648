//! PostgreSQL's command tags, which report the end of a statement; without the count.

/// The command tag of a statement: `INSERT`, `CREATE TABLE`. For a WITH, that of the statement after it.
/// Unknown words are returned as they are, in capitals.
///
/// Source: the tags of PostgreSQL's `CommandComplete` and its `cmdtaglist.h`.
pub fn tag(sql: &str) -> String {
    if crate::blocks::is_block(sql) {
        return "DO".to_owned();
    }
    let mut words = Words { rest: without_opening(sql), depth: 0 };
    let Some(first) = words.next() else { return String::new() };
    match &*first {
        "VALUES" | "TABLE" | "SELECT" => "SELECT".to_owned(),
        "WITH" => {
            let body = ["SELECT", "INSERT", "UPDATE", "DELETE", "VALUES", "TABLE", "MERGE"];
            let found = words.find(|word| body.contains(&&**word));
            match found.as_deref() {
                Some("VALUES" | "TABLE") | None => "SELECT".to_owned(),
                Some(other) => other.to_owned(),
            }
        }
        "START" => "START TRANSACTION".to_owned(),
        "END" => "COMMIT".to_owned(),
        "ABORT" => "ROLLBACK".to_owned(),
        "TRUNCATE" => "TRUNCATE TABLE".to_owned(),
        "LOCK" => "LOCK TABLE".to_owned(),
        "SET" if words.next().as_deref() == Some("CONSTRAINTS") => "SET CONSTRAINTS".to_owned(),
        "REASSIGN" => "REASSIGN OWNED".to_owned(),
        "DECLARE" => "DECLARE CURSOR".to_owned(),
        "CLOSE" => "CLOSE CURSOR".to_owned(),
        "DISCARD" => format!("DISCARD {}", words.next().unwrap_or_default()),
        "CREATE" | "ALTER" | "DROP" => format!("{first} {}", object(&mut words)),
        _ => first,
    }
}

/// A query without its leading parentheses, which the first half of a UNION may have.
fn without_opening(sql: &str) -> &str {
    sql.trim_start_matches(|c: char| c == '(' || c.is_whitespace())
}

/// The kind of object that is created, altered or dropped.
fn object(words: &mut Words<'_>) -> String {
    let before = [
        "OR",
        "REPLACE",
        "TEMP",
        "TEMPORARY",
        "LOCAL",
        "GLOBAL",
        "UNLOGGED",
        "UNIQUE",
        "RECURSIVE",
        "BITMAP",
        "EXTERNAL",
        "UNBOUNDED",
    ];
    let kind = words.find(|word| !before.contains(&&**word)).unwrap_or_default();
    match &*kind {
        "MATERIALIZED" => "MATERIALIZED VIEW".to_owned(),
        "DEFAULT" => "DEFAULT PRIVILEGES".to_owned(),
        "FOREIGN" => "FOREIGN TABLE".to_owned(),
        "USER" => "ROLE".to_owned(),
        _ => kind,
    }
}

/// The words of a statement outside parentheses, quotes and comments, in capitals.
struct Words<'a> {
    rest: &'a str,
    depth: usize,
}

impl Words<'_> {
    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Skips a construct that ends with `end` and begins after `from` bytes.
    fn skip_to(&mut self, from: usize, end: &str) {
        let inner = self.rest.get(from..).unwrap_or_default();
        self.skip(inner.find(end).map_or(self.rest.len(), |at| from + at + end.len()));
    }
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        while let Some(c) = self.rest.chars().next() {
            if self.rest.starts_with("--") {
                self.skip_to(2, "\n");
            } else if self.rest.starts_with("/*") {
                self.skip_to(2, "*/");
            } else if c == '\'' || c == '"' {
                self.skip_to(1, if c == '"' { "\"" } else { "'" });
            } else if c == '_' || c.is_alphabetic() {
                let is_part = |c: char| c == '_' || c == '$' || c == '#' || c.is_alphanumeric();
                let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
                let word = self.rest[..end].to_ascii_uppercase();
                self.skip(end);
                if self.depth == 0 {
                    return Some(word);
                }
            } else {
                match c {
                    '(' => self.depth += 1,
                    ')' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                self.skip(c.len_utf8());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_postgresqls() {
        for (sql, wanted) in [
            ("select 1", "SELECT"),
            (" -- a\n/* b */ values (1)", "SELECT"),
            ("(select 1) union select 2", "SELECT"),
            ("with a as (select 1 from insert_log) insert into t select * from a", "INSERT"),
            ("with a(x) as (delete from t returning *) select ')' from a", "SELECT"),
            ("INSERT INTO t VALUES (1)", "INSERT"),
            ("create unlogged table t (a int)", "CREATE TABLE"),
            ("create or replace view v as select 1", "CREATE VIEW"),
            ("create unique index i on t (a)", "CREATE INDEX"),
            ("drop table if exists t", "DROP TABLE"),
            ("create foreign table t (a int) server files", "CREATE FOREIGN TABLE"),
            ("alter diskgroup data rebalance", "ALTER DISKGROUP"),
            ("create user u", "CREATE ROLE"),
            ("begin", "BEGIN"),
            ("end", "COMMIT"),
            ("start transaction", "START TRANSACTION"),
            ("truncate t", "TRUNCATE TABLE"),
            ("discard all", "DISCARD ALL"),
            ("", ""),
            ("-- nothing", ""),
        ] {
            assert_eq!(tag(sql), wanted, "{sql}");
        }
    }
}
