//! Sequences: the options in a statement, and the values that a session has taken.

use std::collections::{BTreeMap, HashMap};
use std::sync::{MutexGuard, PoisonError};

use cellar_instance::catalog::name::PUBLIC;
use cellar_instance::catalog::{Rights, Sequence, SequenceType, Table};
use datafusion::common::TableReference;

use super::session::RowTables;
use crate::error::Error;
use crate::names::resolve::no_schema;
use crate::settings::denied;

/// What a statement says of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// AS.
    pub of: Option<SequenceType>,
    /// INCREMENT BY.
    pub increment: Option<i64>,
    /// MINVALUE, or (`None`) NO MINVALUE.
    pub least: Option<Option<i64>>,
    /// MAXVALUE, or (`None`) NO MAXVALUE.
    pub most: Option<Option<i64>>,
    /// START WITH.
    pub start: Option<i64>,
    /// RESTART, with a value or without.
    pub restart: Option<Option<i64>>,
    /// CACHE.
    pub cache: Option<i64>,
    /// CYCLE, or NO CYCLE.
    pub cycles: Option<bool>,
}

fn refused(text: String) -> Error {
    Error::new(4013, "22023", text)
}

impl SequenceOptions {
    /// A new sequence.
    ///
    /// # Errors
    /// 22023 the options contradict each other.
    pub(crate) fn made(&self) -> Result<Sequence, Error> {
        let plain = Sequence {
            id: 0,
            counter: 0,
            of: SequenceType::Bigint,
            start: 1,
            increment: 1,
            least: 1,
            most: i64::MAX,
            cache: 1,
            cycles: false,
        };
        self.of(&plain, true)
    }

    /// A sequence with these options changed.
    ///
    /// # Errors
    /// As [`SequenceOptions::made`].
    pub(crate) fn altered(&self, was: &Sequence) -> Result<Sequence, Error> {
        let next = self.of(was, false)?;
        if let Some(Some(restart)) = self.restart {
            within(&next, "RESTART", restart)?;
        }
        Ok(next)
    }

    fn of(&self, was: &Sequence, is_new: bool) -> Result<Sequence, Error> {
        let mut next = was.clone();
        next.of = self.of.unwrap_or(was.of);
        next.increment = self.increment.unwrap_or(was.increment);
        next.cycles = self.cycles.unwrap_or(was.cycles);
        next.cache = self.cache.unwrap_or(was.cache);
        if next.increment == 0 {
            return Err(refused("INCREMENT must not be zero".to_owned()));
        }
        if next.cache < 1 {
            return Err(refused(format!("CACHE ({}) must be greater than zero", next.cache)));
        }
        let (low, high) = next.of.bounds();
        let (was_low, was_high) = was.of.bounds();
        let has_other_type = next.of != was.of;
        let is_up = next.increment > 0;
        next.most = match self.most {
            Some(Some(most)) => most,
            None if !(is_new || has_other_type && was.most == was_high) => was.most,
            _ if is_up => high,
            _ => -1,
        };
        next.least = match self.least {
            Some(Some(least)) => least,
            None if !(is_new || has_other_type && was.least == was_low) => was.least,
            _ if is_up => 1,
            _ => low,
        };
        for (what, value) in [("MAXVALUE", next.most), ("MINVALUE", next.least)] {
            if value < low || value > high {
                let of = next.of.name();
                let text = format!("{what} ({value}) is out of range for sequence data type {of}");
                return Err(refused(text));
            }
        }
        if next.least >= next.most {
            let (least, most) = (next.least, next.most);
            let text = format!("MINVALUE ({least}) must be less than MAXVALUE ({most})");
            return Err(refused(text));
        }
        let first = if is_up { next.least } else { next.most };
        next.start = self.start.unwrap_or(if is_new { first } else { was.start });
        within(&next, "START", next.start)?;
        Ok(next)
    }
}

fn within(sequence: &Sequence, what: &str, value: i64) -> Result<(), Error> {
    let Sequence { least, most, .. } = *sequence;
    let bound = match value {
        _ if value < least => format!("less than MINVALUE ({least})"),
        _ if value > most => format!("greater than MAXVALUE ({most})"),
        _ => return Ok(()),
    };
    Err(refused(format!("{what} value ({value}) cannot be {bound}")))
}

/// The values of sequences that a session has taken.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// The last value from each sequence.
    current: HashMap<u32, i64>,
    /// The sequence of the last value taken.
    last: Option<u32>,
    /// Sequences whose values are still to be made durable.
    unkept: BTreeMap<u32, Sequence>,
}

/// The call of `nextval` that is the DEFAULT of a column with this sequence.
pub(crate) fn default_of_sequence(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let name = match name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(plain)
    {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    };
    format!("nextval('{}')", name.replace('\'', "''"))
}

/// The error for a sequence that does not exist.
pub(crate) fn no_sequence(name: &str) -> Error {
    Error::new(2289, "42P01", format!("sequence \"{name}\" does not exist"))
        .next("make it: create sequence ..")
}

impl RowTables {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence that a text names, as SQL would.
    fn sequence_of(&self, text: &str) -> Result<(String, Sequence), Error> {
        let reference = TableReference::parse_str(text);
        let name = reference.table();
        if let Some(schema) = reference.schema().filter(|own| *own != PUBLIC) {
            return Err(no_schema(schema));
        }
        let catalog = self.catalog()?;
        match catalog.table(name) {
            None => Err(no_sequence(text)),
            Some(found) => match &found.sequence {
                Some(sequence) => Ok((name.to_owned(), sequence.clone())),
                None => {
                    let text = format!("\"{name}\" is a {}, no sequence", found.word());
                    Err(Error::new(2289, "42809", text).next("name a sequence"))
                }
            },
        }
    }

    /// Refuses a role with none of these rights on a sequence. INSERT on a table includes taking values for its
    /// identity column.
    fn check_sequence(&self, key: &str, any: Rights) -> Result<(), Error> {
        if self.settings().is_owner() {
            return Ok(());
        }
        let catalog = self.catalog()?;
        let Some(who) = self.settings().who(&catalog) else {
            return Err(denied("sequence", key, any));
        };
        let has = |table: &Table, any: Rights| table.has_right_on_some(any, &who);
        let is_identity = || {
            let owner = catalog.owner_of(key).filter(|(_, own)| own.identity.is_some());
            any.has(Rights::USAGE) && owner.is_some_and(|(table, _)| has(table, Rights::INSERT))
        };
        match catalog.table(key).is_some_and(|own| has(own, any)) || is_identity() {
            true => Ok(()),
            false => Err(denied("sequence", key, any)),
        }
    }

    /// `nextval`. The value is durable after [`RowTables::keep_values`].
    ///
    /// # Errors
    /// 42P01 there is no such sequence, 2200H it has no value left.
    pub(crate) fn next_value(&self, text: &str) -> Result<i64, Error> {
        let (name, sequence) = self.sequence_of(text)?;
        self.check_sequence(&name, Rights::USAGE.and(Rights::UPDATE))?;
        let Some(value) = self.database().heap().next_value(&sequence)? else {
            let (end, bound) = match sequence.increment > 0 {
                true => ("maximum", sequence.most),
                false => ("minimum", sequence.least),
            };
            let text = format!("nextval: reached {end} value of sequence \"{name}\" ({bound})");
            return Err(Error::new(8004, "2200H", text)
                .next(format!("alter sequence {name} {}value ..", &end[..3])));
        };
        let mut values = self.values();
        values.current.insert(sequence.id, value);
        values.last = Some(sequence.id);
        values.unkept.insert(sequence.counter, sequence);
        Ok(value)
    }

    /// `currval`.
    ///
    /// # Errors
    /// 55000 this session has taken none; 42P01.
    pub(crate) fn current_value(&self, text: &str) -> Result<i64, Error> {
        let (name, sequence) = self.sequence_of(text)?;
        self.check_sequence(&name, Rights::USAGE.and(Rights::SELECT))?;
        self.values().current.get(&sequence.id).copied().ok_or_else(|| {
            let text = format!("currval of sequence \"{name}\" is not yet defined in this session");
            Error::new(8002, "55000", text).next(format!("take one: nextval('{name}')"))
        })
    }

    /// `lastval`.
    ///
    /// # Errors
    /// 55000 this session has taken none.
    pub(crate) fn last_value(&self) -> Result<i64, Error> {
        let values = self.values();
        let last = values.last.and_then(|id| values.current.get(&id)).copied();
        last.ok_or_else(|| {
            Error::new(8002, "55000", "lastval is not yet defined in this session")
                .next("take a value: nextval('..')")
        })
    }

    /// `setval`.
    ///
    /// # Errors
    /// 22003 the sequence has no such value; 42P01.
    pub(crate) fn set_value(&self, text: &str, value: i64, is_called: bool) -> Result<i64, Error> {
        let (name, sequence) = self.sequence_of(text)?;
        self.check_sequence(&name, Rights::UPDATE)?;
        let Sequence { least, most, increment, .. } = sequence;
        if value < least || value > most {
            let text = format!(
                "setval: value {value} is out of bounds for sequence \"{name}\" ({least}..{most})"
            );
            return Err(Error::new(4004, "22003", text));
        }
        let next = if is_called { value.checked_add(increment) } else { Some(value) };
        let Some(next) = next else {
            let text = format!("sequence \"{name}\" has no value behind {value}");
            return Err(Error::new(8004, "2200H", text));
        };
        self.database().heap().set_value(&sequence, next)?;
        let mut values = self.values();
        if is_called {
            values.current.insert(sequence.id, value);
        }
        values.unkept.insert(sequence.counter, sequence);
        Ok(value)
    }

    /// Waits until all values taken are durable, before anybody sees them.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) async fn keep_values(&self) -> Result<(), Error> {
        let unkept = std::mem::take(&mut self.values().unkept);
        for sequence in unkept.values() {
            self.database().heap().keep_values(self.session().waits(), sequence).await?;
        }
        Ok(())
    }

    /// Whether a sequence that would go on with `next` has given a value.
    pub(crate) fn is_called(sequence: &Sequence, next: i64) -> bool {
        next != sequence.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: SequenceOptions) -> Result<(i64, i64, i64), String> {
        let made = options.made().map(|s| (s.start, s.least, s.most));
        made.map_err(|error| error.message)
    }

    #[test]
    fn bounds_and_start_are_postgresqls() {
        let up = SequenceOptions::default();
        assert_eq!(made(up.clone()), Ok((1, 1, i64::MAX)));
        let down = SequenceOptions { increment: Some(-2), ..up.clone() };
        assert_eq!(made(down), Ok((-1, i64::MIN, -1)));
        let small = SequenceOptions { of: Some(SequenceType::Smallint), ..up.clone() };
        assert_eq!(made(small.clone()), Ok((1, 1, 32767)));
        let beyond = SequenceOptions { most: Some(Some(40000)), ..small };
        let text = "MAXVALUE (40000) is out of range for sequence data type smallint";
        assert_eq!(made(beyond), Err(text.to_owned()));
        let empty = SequenceOptions { least: Some(Some(5)), most: Some(Some(5)), ..up.clone() };
        assert_eq!(made(empty), Err("MINVALUE (5) must be less than MAXVALUE (5)".to_owned()));
        let low = SequenceOptions { start: Some(0), ..up.clone() };
        let text = "START value (0) cannot be less than MINVALUE (1)";
        assert_eq!(made(low), Err(text.to_owned()));
        let zero = SequenceOptions { increment: Some(0), ..up };
        assert_eq!(made(zero), Err("INCREMENT must not be zero".to_owned()));
    }

    #[test]
    fn defaults_name_their_sequence() {
        assert_eq!(default_of_sequence("t_id_seq"), "nextval('t_id_seq')");
        assert_eq!(default_of_sequence("T'\"x"), "nextval('\"T''\"\"x\"')");
    }
}
