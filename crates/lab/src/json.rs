//! JSON with numbers of twelve digits: enough for any measurement, and few enough that every reader
//! gets the same number and writes the same digits again.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// `value` as indented JSON with a line feed at the end.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    let rounded = Rounded(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(&mut out, rounded))?;
    out.push(b'\n');
    Ok(String::from_utf8(out).expect("serde_json writes UTF-8"))
}

/// The nearest number of twelve digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

struct Rounded(PrettyFormatter<'static>);

/// Passes the layout on to the wrapped formatter.
macro_rules! laid_out {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, out: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            self.0.$name(out $(, $argument)*)
        })*
    };
}

impl Formatter for Rounded {
    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        self.0.write_f64(out, rounded(value))
    }

    laid_out! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_is_written_the_same() {
        let values = [0.1 + 0.2, 1.0 / 3.0, 1e-9 / 7.0, 123_456_789.123_456_78, 0.0, 5e300, -2.5];
        let text = pretty(&values).unwrap();
        assert!(text.contains("0.3,\n") && text.contains("0.333333333333,"), "{text}");
        let back: Vec<f64> = serde_json::from_str(&text).unwrap();
        assert_eq!(pretty(&back).unwrap(), text);
    }
}
