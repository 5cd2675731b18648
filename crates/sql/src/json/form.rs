//! Values of types that PostgreSQL has and Arrow lacks: uuid, json, jsonb. They are stored as texts in a
//! canonical form.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListArray, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef};

use super::value::{Wrong, read};
use crate::error::Error;

/// The form of a stored text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Thirty-two digits in five groups.
    Uuid,
    /// JSON as it was written.
    Json,
    /// JSON by its value.
    Jsonb,
}

/// The most characters of a text that an error shows.
const SHOWN: usize = 60;

/// The error for a text that is not JSON.
pub(super) fn wrong_json(text: &str, wrong: &Wrong) -> Error {
    let place = text.get(..wrong.at).map_or(wrong.at, |before| before.chars().count());
    let shown: String = text.chars().take(SHOWN).collect();
    let message = format!("invalid input syntax for type json: \"{shown}\"");
    Error::new(40441, "22P02", message).next(format!("character {}: {}", place + 1, wrong.what))
}

fn uuid(text: &str) -> Option<String> {
    let inner = match text.trim().strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text.trim(),
    };
    let mut digits = String::with_capacity(32);
    for c in inner.chars() {
        match c {
            // Between groups of four.
            '-' if !digits.is_empty() && digits.len().is_multiple_of(4) && digits.len() < 32 => {}
            c if c.is_ascii_hexdigit() => digits.push(c.to_ascii_lowercase()),
            _ => return None,
        }
    }
    if digits.len() != 32 || inner.contains("--") {
        return None;
    }
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
    Some(groups.map(|group| &digits[group]).join("-"))
}

/// The metadata key, in a field, for the type that its texts stand for.
pub(crate) const FORM: &str = "form";

/// Whether a field declares its texts to be JSON.
pub(crate) fn is_json_field(field: &Field) -> bool {
    let form = field.metadata().get(FORM).and_then(|form| Form::of(form));
    matches!(form, Some(Form::Json | Form::Jsonb))
}

/// A field of texts, or of lists of them, in a form.
pub(crate) fn field_of(name: &str, data_type: DataType, form: Form) -> FieldRef {
    let field = Field::new(name, data_type, true);
    Arc::new(field.with_metadata([(FORM.to_owned(), form.name().to_owned())].into()))
}

/// A field of JSON.
pub(crate) fn json_field(name: &str, form: Form) -> FieldRef {
    field_of(name, DataType::Utf8, form)
}

impl Form {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Form::Uuid => "uuid",
            Form::Json => "json",
            Form::Jsonb => "jsonb",
        }
    }

    /// The form with a name.
    pub fn of(name: &str) -> Option<Form> {
        [Form::Uuid, Form::Json, Form::Jsonb].into_iter().find(|own| own.name() == name)
    }

    /// Texts in their stored form, or lists of them.
    ///
    /// # Errors
    /// 22P02 one is not a value of the type.
    pub fn kept_all(self, array: &ArrayRef) -> Result<ArrayRef, Error> {
        if let Some(lists) = array.as_list_opt::<i32>() {
            let (item, offsets, values, nulls) = lists.clone().into_parts();
            let values = self.kept_all(&values)?;
            return Ok(Arc::new(ListArray::new(item, offsets, values, nulls)));
        }
        let Some(texts) = array.as_string_opt::<i32>() else { return Ok(Arc::clone(array)) };
        let one = |text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => self.kept(text).map(|kept| Some(kept.unwrap_or_else(|| text.to_owned()))),
        };
        Ok(Arc::new(texts.iter().map(one).collect::<Result<StringArray, Error>>()?))
    }

    /// A text in its stored form; `None`: unchanged.
    ///
    /// # Errors
    /// 22P02 it is not a value of the type.
    pub fn kept(self, text: &str) -> Result<Option<String>, Error> {
        let kept = match self {
            Form::Uuid => {
                let kept = uuid(text);
                kept.ok_or_else(|| {
                    let shown: String = text.chars().take(SHOWN).collect();
                    let message = format!("invalid input syntax for type uuid: \"{shown}\"");
                    Error::new(1465, "22P02", message)
                        .next("32 hexadecimal digits, as gen_random_uuid() gives them")
                })?
            }
            Form::Json => {
                read(text).map_err(|wrong| wrong_json(text, &wrong))?;
                return Ok(None);
            }
            Form::Jsonb => read(text).map_err(|wrong| wrong_json(text, &wrong))?.shown(),
        };
        Ok((kept != text).then_some(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_kept_in_one_form() {
        let kept = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            kept,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(uuid(text).as_deref(), Some(kept), "{text}");
        }
        for text in [
            "",
            "a0eebc99",
            "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
