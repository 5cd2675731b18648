//! Default names of indexes, constraints and sequences.

use cellar_instance::catalog::name;

/// The longest default name, in bytes: PostgreSQL's.
const NAME_MAX: usize = 63;

/// A default name as PostgreSQL forms it: the table, its columns if any, and a suffix; the longer of the first two
/// is shortened.
pub(crate) fn made_name(table: &str, columns: &str, label: &str) -> String {
    let dashes = if columns.is_empty() { 1 } else { 2 };
    let room = NAME_MAX.saturating_sub(label.len() + dashes);
    let (mut first, mut second) = (table.len(), columns.len());
    while first + second > room {
        match first > second {
            true => first -= 1,
            false => second -= 1,
        }
    }
    let cut = |text: &str, mut length: usize| {
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        text[..length].to_owned()
    };
    let (table, columns) = (cut(table, first), cut(columns, second));
    match columns.is_empty() {
        true => format!("{table}_{label}"),
        false => format!("{table}_{columns}_{label}"),
    }
}

/// The first such name that is free, with a number appended if needed.
pub(crate) fn free_name(
    (table, columns, label): (&str, &str, &str),
    mut is_free: impl FnMut(&str) -> bool,
) -> String {
    let numbered = (1u64..).map(|number| format!("{label}{number}"));
    let labels = std::iter::once(label.to_owned()).chain(numbered);
    let (_, own) = name::parts(table);
    let made = |label: &str| name::beside(table, &made_name(own, columns, label));
    let mut names = labels.map(|label| made(&label));
    names.find(|name| is_free(name)).unwrap_or_else(|| made(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_are_postgresqls() {
        assert_eq!(made_name("people", "name", "idx"), "people_name_idx");
        assert_eq!(made_name("people", "", "pkey"), "people_pkey");
        let long = made_name(&"t".repeat(50), &"c".repeat(50), "key");
        assert_eq!(long, format!("{}_{}_key", "t".repeat(29), "c".repeat(29)));
        assert_eq!(long.len(), NAME_MAX);
        // Multi-byte characters are not split.
        assert!(made_name(&"ä".repeat(40), "", "pkey").len() <= NAME_MAX);
        let taken = ["t_a_idx", "t_a_idx1"];
        let free = free_name(("t", "a", "idx"), |name| !taken.contains(&name));
        assert_eq!(free, "t_a_idx2");
    }
}
