//! Header detection: whether the first line of a CSV text names its columns or is already a row. A row
//! taken for a header would be silently lost, and the columns would get arbitrary names.

/// The kind of a value, by its looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `7`, `-1.5`, `2e10`.
    Number,
    /// `2024-02-29`, with or without a time after it; `29.02.2024`, `2/29/2024`.
    Date,
    /// Anything else.
    Text,
}

/// A value longer than this is text.
pub(crate) const VALUE_MAX: usize = 40;

/// How programs write NULL, in any case.
const NO_VALUE: [&str; 5] = ["NULL", "NA", "N/A", "-", "\\N"];

/// The kind of the value of a field; `None` if it is empty, or stands for NULL.
pub(crate) fn class_of(value: &[u8]) -> Option<Class> {
    let value = value.trim_ascii();
    if value.is_empty() || NO_VALUE.iter().any(|no| value.eq_ignore_ascii_case(no.as_bytes())) {
        return None;
    }
    let class = match std::str::from_utf8(value) {
        Ok(text) if value.len() <= VALUE_MAX && is_number(text) => Class::Number,
        Ok(text) if value.len() <= VALUE_MAX && is_date(text) => Class::Date,
        _ => Class::Text,
    };
    Some(class)
}

/// The common kind of all values of a column, after one more.
pub(crate) fn with(column: Option<Class>, value: Option<Class>) -> Option<Class> {
    match (column, value) {
        (column, None) => column,
        (None, value) => value,
        (Some(column), Some(value)) if column == value => Some(column),
        _ => Some(Class::Text),
    }
}

fn is_number(text: &str) -> bool {
    // Rust also parses inf and nan, which are valid names.
    text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c))
        && text.parse::<f64>().is_ok()
}

fn is_date(text: &str) -> bool {
    let (day, time) = match text.find(['T', ' ']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    };
    let is_time = time.chars().all(|c| c.is_ascii_digit() || ":.+-Z".contains(c));
    let Some(separator) = day.chars().find(|c| !c.is_ascii_digit()) else { return false };
    let parts: Vec<&str> = day.split(separator).collect();
    let digits = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    is_time
        && "-/.".contains(separator)
        && parts.iter().all(digits)
        && matches!(lengths.as_slice(), [4, 1 | 2, 1 | 2] | [1 | 2, 1 | 2, 2 | 4])
}

/// Whether `names`, the fields of the first line, look like one more row of `columns`: a number stands
/// over numbers or a date over dates, and every field could be a value of its column.
pub(crate) fn is_row(names: &[String], columns: &[Option<Class>]) -> bool {
    let mut alike = false;
    for (name, column) in names.iter().zip(columns) {
        match (class_of(name.as_bytes()), column) {
            (None, _) | (_, None | Some(Class::Text)) => {}
            (Some(class), Some(column)) if class == *column => alike = true,
            _ => return false,
        }
    }
    alike && !counts_on(names)
}

/// Whether the numbers among the names are years or a sequence, as in `country,2019,2020,2021`: names of
/// columns of one kind. Without a text among them, nothing distinguishes them from values.
fn counts_on(names: &[String]) -> bool {
    if !names.iter().any(|name| class_of(name.as_bytes()) == Some(Class::Text)) {
        return false;
    }
    let whole: Vec<i64> = names.iter().filter_map(|name| name.trim().parse().ok()).collect();
    let are_numbers = |name: &&String| class_of(name.as_bytes()) != Some(Class::Text);
    let all = names.iter().filter(are_numbers).count() == whole.len();
    let even = whole.windows(2).all(|pair| {
        let step = whole[1].checked_sub(whole[0]);
        step != Some(0) && pair[1].checked_sub(pair[0]) == step
    });
    let years = whole.iter().all(|year| (1900..2100).contains(year));
    all && even && whole.len() >= if years { 2 } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_dates_are_told_from_text() {
        for text in ["7", "-1.5", "+2e10", ".5", " 8 "] {
            assert_eq!(class_of(text.as_bytes()), Some(Class::Number), "{text}");
        }
        for text in
            ["2024-02-29", "2024-02-29T01:02:03.5Z", "2024-2-9 10:00", "29.02.2024", "2/9/24"]
        {
            assert_eq!(class_of(text.as_bytes()), Some(Class::Date), "{text}");
        }
        for text in ["a", "nan", "inf", "--", "1-2", "1.2.3.4", "q1", "2024-xx-01", "e", "1 2"] {
            assert_eq!(class_of(text.as_bytes()), Some(Class::Text), "{text}");
        }
        for text in [" ", "NULL", "null", "NA", "n/a", "-", "\\N", "\\n", " Null "] {
            assert_eq!(class_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(class_of(&[b'1'; 50]), Some(Class::Text));
        assert_eq!(class_of(b"\xff"), Some(Class::Text));
    }

    #[test]
    fn a_row_is_told_from_odd_names() {
        let row = |names: &str, values: &str| {
            let names: Vec<String> = names.split(',').map(str::to_owned).collect();
            let columns: Vec<_> = values.split(',').map(|v| class_of(v.as_bytes())).collect();
            is_row(&names, &columns)
        };
        assert!(row("1,ann,2024-01-02", "2,bob,2024-01-03"));
        assert!(row("1.5", "2.5"));
        assert!(row("ann,2024-01-02", "bob,2024-01-03"));
        assert!(row("1,,7", "2,x,8"));
        // Years over numbers, and nothing that must be a name: the user has to decide.
        assert!(row("2019,2020", "1.5,2.5"));
        assert!(row("1,2,3", "4,5,6"));
        assert!(row(",2019,2020", "chad,1.5,2.5"));
        // NULL is not a text.
        assert!(row("1,NULL,2024-01-02", "NA,bob,2024-01-03"));
        assert!(row("1,-", "2,7"));
        for (names, values) in [
            ("id,name", "1,ann"),
            ("id,2020", "1,2"),
            ("country,2019,2020", "chad,1.5,2.5"),
            ("country,2019,2020", "-,1.5,NA"),
            ("na,k", "1,2"),
            ("x,0,1,2", "a,4,5,6"),
            ("1,2", "a,b"),
            ("2024-01-01", "5"),
            ("1", ""),
            ("", "1"),
        ] {
            assert!(!row(names, values), "{names} over {values}");
        }
    }
}
