//! The labels of a column: texts that rows store as short codes, whose bytes sort as the labels do.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, StringArray};
use arrow_schema::DataType;

/// Labels in their order, each with its code.
#[derive(Debug, PartialEq, Eq)]
pub struct Labels {
    /// What these are the labels of.
    pub name: String,
    /// Labels that may not be used yet.
    pub new: Vec<String>,
    /// Rising by code.
    own: Vec<(String, String)>,
    /// The place of each label.
    places: HashMap<String, usize>,
}

impl Labels {
    /// Labels of something with their codes, in the order of the codes. No label and no code is there twice.
    pub fn new(name: String, mut own: Vec<(String, String)>) -> Labels {
        own.sort_by(|(_, a), (_, b)| a.cmp(b));
        let places = own.iter().enumerate().map(|(at, (label, _))| (label.clone(), at)).collect();
        Labels { name, new: Vec::new(), own, places }
    }

    /// All labels in their order.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.own.iter().map(|(label, _)| label.as_str())
    }

    /// Which label it is, from 0.
    pub fn place(&self, label: &str) -> Option<usize> {
        self.places.get(label).copied()
    }

    /// The code of a label.
    pub fn code(&self, label: &str) -> Option<&str> {
        self.place(label).map(|at| self.own[at].1.as_str())
    }

    /// The label of a code.
    pub fn label(&self, code: &str) -> Option<&str> {
        let at = self.own.binary_search_by(|(_, own)| own.as_str().cmp(code)).ok()?;
        Some(&self.own[at].0)
    }

    /// Codes in the place of labels: of texts, or of lists of texts.
    ///
    /// # Errors
    /// A text that is no label.
    pub fn codes(&self, array: &ArrayRef) -> Result<ArrayRef, String> {
        mapped(array, &|label| self.code(label))
    }

    /// Labels in the place of codes.
    ///
    /// # Errors
    /// A text that is no code.
    pub fn texts(&self, array: &ArrayRef) -> Result<ArrayRef, String> {
        mapped(array, &|code| self.label(code))
    }
}

fn mapped<'l>(array: &ArrayRef, of: &impl Fn(&str) -> Option<&'l str>) -> Result<ArrayRef, String> {
    let all = |texts: &mut dyn Iterator<Item = Option<&str>>| {
        let mut made = StringBuilder::new();
        for text in texts {
            match text {
                None => made.append_null(),
                Some(text) => made.append_value(of(text).ok_or_else(|| text.to_owned())?),
            }
        }
        Ok::<StringArray, String>(made.finish())
    };
    Ok(match array.data_type() {
        DataType::Utf8 => Arc::new(all(&mut array.as_string::<i32>().iter())?),
        DataType::Utf8View => {
            let made = all(&mut array.as_string_view().iter())?;
            let views = arrow_array::StringViewArray::from_iter(made.iter());
            Arc::new(views)
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let items = mapped(lists.values(), of)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::new(Arc::clone(item), offsets, items, nulls))
        }
        _ => Arc::clone(array),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_the_order_of_labels() {
        let own = [("late", "0c"), ("early", "0a"), ("noon", "0b")];
        let own = own.map(|(label, code)| (label.to_owned(), code.to_owned()));
        let labels = Labels::new("day".to_owned(), own.to_vec());
        assert_eq!(labels.labels().collect::<Vec<_>>(), ["early", "noon", "late"]);
        assert_eq!((labels.code("noon"), labels.label("0c")), (Some("0b"), Some("late")));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("late"), None, Some("early")]));
        let codes = labels.codes(&texts).unwrap();
        assert_eq!(codes.as_string::<i32>().value(0), "0c");
        assert_eq!(&labels.texts(&codes).unwrap(), &texts);
        let other: ArrayRef = Arc::new(StringArray::from(vec!["never"]));
        assert_eq!(labels.codes(&other), Err("never".to_owned()));
    }
}
