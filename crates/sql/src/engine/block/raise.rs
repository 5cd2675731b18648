//! RAISE, and RAISE_APPLICATION_ERROR.

use super::Run;
use super::conditions::states_of;
use super::names::Named;
use crate::blocks::{Raise, RaiseLevel};
use crate::error::Error;

/// Numbers that RAISE_APPLICATION_ERROR may give.
const APPLICATION: std::ops::RangeInclusive<i64> = -20_999..=-20_000;

/// SQLSTATEs that are known; others are raised as P0001.
const STATES: [&str; 24] = [
    "P0001", "P0002", "P0003", "22003", "22004", "22012", "22023", "22P02", "22001", "22007",
    "23502", "23503", "23505", "23514", "40001", "40P01", "42501", "42601", "42704", "42P01",
    "55000", "55P03", "0A000", "57014",
];

/// An SQLSTATE as errors have it.
fn state_of(code: &str) -> &'static str {
    STATES.into_iter().find(|state| *state == code).unwrap_or("P0001")
}

impl Run<'_> {
    /// Raises an error, or tells the user something.
    pub(super) async fn raise(&mut self, raise: &Raise) -> Result<(), Error> {
        match raise {
            Raise::Again => match self.handled.last() {
                Some(error) => Err(error.clone()),
                None => Err(Error::new(
                    6508,
                    "0Z002",
                    "RAISE without parameters, and no error is handled",
                )),
            },
            Raise::Named(name) => Err(self.named(name)),
            Raise::Application { number, text } => {
                let number = self.number_of(number).await?.unwrap_or_default();
                if !APPLICATION.contains(&number) {
                    let text = format!("RAISE_APPLICATION_ERROR: {number} is not valid");
                    return Err(Error::new(21000, "22023", text).next("-20999 to -20000"));
                }
                let text = self.text_of(text).await?.unwrap_or_default();
                let number = u32::try_from(number.unsigned_abs()).unwrap_or_default();
                Err(Error::new(number, "P0001", text))
            }
            Raise::Text { level, format, values, code } => {
                let mut told = Vec::with_capacity(values.len());
                for value in values {
                    told.push(self.text_of(value).await?.unwrap_or_else(|| "<NULL>".to_owned()));
                }
                let text = filled(format, &told)?;
                match level {
                    RaiseLevel::Notice => self.notices.push(text),
                    RaiseLevel::Silent => {}
                    RaiseLevel::Exception => {
                        let state = match code {
                            Some(code) => self.text_of(code).await?.unwrap_or_default(),
                            None => "P0001".to_owned(),
                        };
                        let named = states_of(&state.to_ascii_lowercase()).first().copied();
                        let state = named.unwrap_or_else(|| state_of(&state));
                        return Err(Error::new(20_000, state, text));
                    }
                }
                Ok(())
            }
        }
    }

    /// The error of a condition, or of an exception of the block's own.
    fn named(&self, name: &str) -> Error {
        if self.scopes.find(&[name.to_owned()]) == Some(Named::Exception) {
            return Error::new(6510, "P0001", name.to_owned())
                .next("handle it: EXCEPTION WHEN .. THEN");
        }
        match states_of(name).first() {
            Some(state) => Error::new(6510, state, name.to_owned()),
            None => Error::new(6510, "42704", format!("exception \"{name}\" is not declared"))
                .next("declare it: DECLARE name EXCEPTION;"),
        }
    }
}

/// A format in which each `%` is the next value, and `%%` a percent sign.
fn filled(format: &str, values: &[String]) -> Result<String, Error> {
    let (mut made, mut values) = (String::new(), values.iter());
    let mut rest = format.chars().peekable();
    let wrong = |what: &str| Error::syntax(format!("too {what} values for RAISE"));
    while let Some(c) = rest.next() {
        match c {
            '%' if rest.peek() == Some(&'%') => {
                rest.next();
                made.push('%');
            }
            '%' => made.push_str(values.next().ok_or_else(|| wrong("few"))?),
            c => made.push(c),
        }
    }
    match values.next() {
        None => Ok(made),
        Some(_) => Err(wrong("many")),
    }
}
