//! Arrow's views of strings, made once for the strings that differ and copied for each row.

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer};

/// Strings in one buffer, and a view of each.
#[derive(Clone, Debug)]
pub struct Views {
    buffer: Buffer,
    views: Vec<u128>,
    is_text: bool,
}

impl Views {
    /// Views of strings that follow each other in `bytes` and end at `ends`. `None`: they are to be
    /// text and one is not UTF-8, or an end is beyond the bytes or before the one before it.
    pub fn new(bytes: Vec<u8>, ends: &[u32], is_text: bool) -> Option<Views> {
        Views::try_new(bytes, ends, is_text).ok()
    }

    /// As [`Views::new`], but gives the bytes back where it makes nothing of them.
    pub fn try_new(bytes: Vec<u8>, ends: &[u32], is_text: bool) -> Result<Views, Vec<u8>> {
        match views_of(&bytes, ends, is_text) {
            Some(views) => Ok(Views { buffer: Buffer::from_vec(bytes), views, is_text }),
            None => Err(bytes),
        }
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// An array of all of them, in their order.
    pub fn into_array(self, nulls: Option<NullBuffer>) -> ArrayRef {
        let views = self.views.clone();
        self.array(views, nulls)
    }

    /// An array whose rows are the strings of these numbers; `None`: there is no such string.
    pub fn take(
        &self,
        numbers: impl Iterator<Item = i64>,
        nulls: Option<NullBuffer>,
    ) -> Option<ArrayRef> {
        let view = |number| self.views.get(usize::try_from(number).ok()?).copied();
        let views: Option<Vec<u128>> = numbers.map(view).collect();
        Some(self.array(views?, nulls))
    }

    fn array(&self, views: Vec<u128>, nulls: Option<NullBuffer>) -> ArrayRef {
        assert!(nulls.as_ref().is_none_or(|nulls| nulls.len() == views.len()), "a bit a row");
        let buffers = vec![self.buffer.clone()];
        if self.is_text {
            // SAFETY: every view was made by `new` of a part of this buffer that is inside it, and
            // that is UTF-8.
            #[expect(unsafe_code, reason = "checked once for all rows, not once a row")]
            Arc::new(unsafe { StringViewArray::new_unchecked(views.into(), buffers, nulls) })
        } else {
            // SAFETY: as above; bytes need be nothing but there.
            #[expect(unsafe_code, reason = "checked once for all rows, not once a row")]
            Arc::new(unsafe { BinaryViewArray::new_unchecked(views.into(), buffers, nulls) })
        }
    }
}

/// A view of each string.
fn views_of(bytes: &[u8], ends: &[u32], is_text: bool) -> Option<Vec<u128>> {
    let text = if is_text { Some(std::str::from_utf8(bytes).ok()?) } else { None };
    let mut views = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        let range = start as usize..*end as usize;
        // What is cut between two characters of good text is good text.
        if text.is_some_and(|text| !text.is_char_boundary(range.end)) {
            return None;
        }
        views.push(make_view(bytes.get(range)?, 0, start));
        start = *end;
    }
    Some(views)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    #[test]
    fn strings_are_taken_by_their_numbers_and_bad_ones_refused() {
        let bytes = "aä a string that is not inlined".as_bytes().to_vec();
        let end = bytes.len() as u32;
        let views = Views::new(bytes.clone(), &[1, 3, end], true).expect("text");
        let array = views.take([2, 0, 1, 0].into_iter(), None).expect("they are there");
        array.to_data().validate_full().expect("a sound array");
        let rows: Vec<&str> = array.as_string_view().iter().flatten().collect();
        assert_eq!(rows, [" a string that is not inlined", "a", "ä", "a"]);
        assert!(views.take([3].into_iter(), None).is_none());
        assert!(views.take([-1].into_iter(), None).is_none());
        assert!(Views::new(bytes.clone(), &[2, end], true).is_none(), "inside a character");
        assert!(Views::new(bytes.clone(), &[2, end], false).is_some());
        assert!(Views::new(bytes.clone(), &[3, 1], false).is_none(), "ends before it begins");
        assert!(Views::new(bytes, &[end + 1], false).is_none(), "beyond the end");
        assert!(Views::new(vec![0xff], &[1], true).is_none(), "no text");
    }
}
