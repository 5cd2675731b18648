//! An enum type as the catalog keeps it: its labels in their order, each with a code that stays the same.

use serde::{Deserialize, Serialize};

use super::{Catalog, Table, TableKind};

/// Digits of codes, in the order of their bytes.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Digits of a code that no other one has made longer.
const WIDTH: u32 = 4;

/// The number of the first label: there is as much room before it as behind.
const FIRST: u64 = 36u64.pow(WIDTH) / 2;

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// As people know it.
    pub name: String,
    /// Its code, as rows and keys store it: the codes sort bytewise in the order of the labels.
    pub code: String,
    /// Added by the transaction that sees it, which may not use it yet.
    #[serde(skip)]
    pub is_new: bool,
}

/// An enum type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnumType {
    /// Its labels, in their order.
    pub labels: Vec<Label>,
}

fn digit(byte: u8) -> usize {
    DIGITS.iter().position(|own| *own == byte).unwrap_or(0)
}

fn of_number(mut number: u64) -> String {
    let mut code = [b'0'; WIDTH as usize];
    for place in code.iter_mut().rev() {
        *place = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    code.iter().map(|byte| char::from(*byte)).collect()
}

fn number_of(code: &str) -> u64 {
    let first = code.bytes().take(WIDTH as usize);
    first.fold(0, |number, byte| number * 36 + digit(byte) as u64)
}

/// A code between two others, either of which may be missing.
fn between(low: Option<&str>, high: Option<&str>) -> String {
    match (low, high) {
        (None, None) => return of_number(FIRST),
        (Some(low), None) if number_of(low) + 1 < 36u64.pow(WIDTH) => {
            return of_number(number_of(low) + 1);
        }
        (None, Some(high)) if number_of(high) > 1 => return of_number(number_of(high) - 1),
        _ => {}
    }
    let (low, mut high) = (low.unwrap_or_default().as_bytes(), high.map(str::as_bytes));
    let mut made = String::new();
    // A code is a fraction: digits after its last one are 0.
    for at in 0.. {
        let least = low.get(at).map_or(0, |byte| digit(*byte));
        let most = match high {
            Some(high) => high.get(at).map_or(0, |byte| digit(*byte)),
            None => DIGITS.len(),
        };
        let middle = usize::midpoint(least, most);
        if most > least && middle > least {
            made.push(char::from(DIGITS[middle]));
            break;
        }
        made.push(char::from(DIGITS[least]));
        if most > least {
            high = None;
        }
    }
    made
}

impl EnumType {
    /// A type with these labels.
    pub fn new(names: &[String]) -> EnumType {
        let mut made = EnumType::default();
        names.iter().for_each(|name| made.insert(made.labels.len(), name));
        made
    }

    /// Which label it is, from 0.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.labels.iter().position(|label| label.name == name)
    }

    /// Adds a label before the one at this place.
    pub fn insert(&mut self, at: usize, name: &str) {
        let code = |at: usize| self.labels.get(at).map(|label| label.code.as_str());
        let before = at.checked_sub(1).and_then(code);
        let code = between(before, code(at));
        self.labels.insert(at, Label { name: name.to_owned(), code, is_new: false });
    }

    /// What is wrong with it.
    pub(super) fn fault(&self) -> Option<String> {
        let is_code = |code: &str| !code.is_empty() && code.bytes().all(|b| DIGITS.contains(&b));
        if let Some(label) = self.labels.iter().find(|label| !is_code(&label.code)) {
            return Some(format!("label \"{}\" has no code: \"{}\"", label.name, label.code));
        }
        let mut pairs = self.labels.windows(2);
        pairs.find(|pair| pair[0].code >= pair[1].code).map(|pair| {
            format!("labels \"{}\" and \"{}\" are in no order", pair[0].name, pair[1].name)
        })
    }
}

/// How a column names its enum type, in the catalog's form of columns.
pub fn form_of_enum(oid: u32) -> String {
    format!("enum:{oid}")
}

/// The number of the enum type that a column names.
pub fn enum_of_form(form: &str) -> Option<u32> {
    form.strip_prefix("enum:")?.parse().ok()
}

impl Catalog {
    /// The enum type of that name.
    pub fn enum_type(&self, name: &str) -> Option<(&Table, &EnumType)> {
        let table = self.table(name)?;
        table.labels.as_ref().map(|labels| (table, labels))
    }

    /// The enum type of that number.
    pub fn enum_by_oid(&self, oid: u32) -> Option<(&Table, &EnumType)> {
        let mut types = self.tables.iter().filter(|table| table.kind == TableKind::Enum);
        let found = types.find(|table| table.oid() == oid)?;
        found.labels.as_ref().map(|labels| (found, labels))
    }

    /// The tables and views that have columns of an enum type.
    pub fn users_of_enum(&self, oid: u32) -> impl Iterator<Item = &Table> {
        // Columns are JSON: in a text of it the quotes would be others.
        let said = format!("\"form\":\"{}\"", form_of_enum(oid));
        self.tables.iter().filter(move |table| table.schema.contains(&said))
    }

    /// A column of an enum type that is not there: the table's name.
    pub(super) fn without_its_enum(&self) -> Option<&Table> {
        const SAID: &str = "\"form\":\"enum:";
        self.tables.iter().find(|table| {
            table.schema.match_indices(SAID).any(|(at, _)| {
                let rest = &table.schema[at + SAID.len()..];
                let digits = rest.split('"').next().and_then(|digits| digits.parse().ok());
                digits.is_some_and(|oid| self.enum_by_oid(oid).is_none())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(made: &EnumType) -> Vec<&str> {
        made.labels.iter().map(|label| label.name.as_str()).collect()
    }

    #[test]
    fn labels_stay_in_their_order_wherever_they_are_added() {
        let mut made = EnumType::new(&["a".into(), "b".into(), "c".into()]);
        made.insert(0, "first");
        made.insert(2, "between");
        made.insert(5, "last");
        assert_eq!(names(&made), ["first", "a", "between", "b", "c", "last"]);
        assert_eq!(made.fault(), None);
        let codes: Vec<String> = made.labels.iter().map(|label| label.code.clone()).collect();
        // Always at the same place, at both ends, and everywhere.
        for number in 0..200 {
            made.insert(2, &format!("x{number}"));
            made.insert(0, &format!("y{number}"));
            made.insert(made.labels.len(), &format!("z{number}"));
            made.insert((number * 7) % made.labels.len(), &format!("w{number}"));
            assert_eq!(made.fault(), None, "{number}");
        }
        for (name, code) in ["first", "a", "between", "b", "c", "last"].iter().zip(codes) {
            assert_eq!(made.position(name).map(|at| made.labels[at].code.clone()), Some(code));
        }
    }

    #[test]
    fn a_column_says_its_type() {
        assert_eq!(enum_of_form(&form_of_enum(70)), Some(70));
        assert_eq!(enum_of_form("jsonb"), None);
    }

    #[test]
    fn a_catalog_with_types_has_a_version_that_older_programs_refuse() {
        let plain = Catalog::default();
        assert_eq!(plain.version_needed(), 1);
        let made = plain.with(Table::of_enum("mood", EnumType::new(&["a".into()])), false);
        let made = made.unwrap_or_default();
        assert_eq!(made.version_needed(), 8);
        let bytes = made.encode().unwrap_or_default();
        assert!(bytes.starts_with(b"cellar catalog 8 "));
        let read = Catalog::decode(&bytes).unwrap_or_default();
        assert_eq!(read.enum_type("mood").map(|(_, own)| names(own)), Some(vec!["a"]));
        let oid = made.table("mood").map(Table::oid).unwrap_or_default();
        assert!(made.enum_by_oid(oid).is_some());
        // A column of a missing type arises from two concurrent transactions; the later one gets this
        // error.
        let schema = format!(r#"[{{"form":"{}","name":"m"}}]"#, form_of_enum(oid));
        let table = Table::in_heap("t", schema, crate::catalog::RowTable::plain(70));
        let both = made.with(table, false).unwrap_or_default();
        assert!(both.without_its_enum().is_none());
        assert_eq!(both.users_of_enum(oid).count(), 1);
        let (gone, _) = both.without("mood").unwrap_or((plain, both.tables[0].clone()));
        assert_eq!(gone.without_its_enum().map(|table| table.name.as_str()), Some("t"));
    }
}
