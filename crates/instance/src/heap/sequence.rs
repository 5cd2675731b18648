//! Values of sequences. They are given at once, and durable before anybody sees them: a caller that takes
//! some first makes them [durable](Heap::keep_values).

use cellar_heap::{Error as HeapError, Steps};
use cellar_wait::Session;

use super::{Heap, State, from_heap};
use crate::catalog::Sequence;
use crate::error::Result;

impl Heap {
    /// The next value of a sequence; `None`: it has none left.
    ///
    /// # Errors
    /// The heap is not open, or the sequence is gone.
    pub fn next_value(&self, sequence: &Sequence) -> Result<Option<i64>> {
        let Sequence { counter, increment: step, least, most, cycles, .. } = *sequence;
        match self.store()?.take_ahead(counter, &Steps { step, least, most, cycles }) {
            Ok(value) => Ok(Some(value)),
            Err(HeapError::CounterEnds { .. }) => Ok(None),
            Err(error) => Err(from_heap(error)),
        }
    }

    /// The value that a sequence gives next, if that is within its bounds.
    ///
    /// # Errors
    /// As [`Heap::next_value`].
    pub fn peek_value(&self, sequence: &Sequence) -> Result<i64> {
        if let State::ReadOnly(reader) | State::Ahead(reader, _) = &*self.state() {
            return reader.peek_counter(sequence.counter).map_err(from_heap);
        }
        self.store()?.peek_counter(sequence.counter).map_err(from_heap)
    }

    /// Sets the value that a sequence gives next.
    ///
    /// # Errors
    /// As [`Heap::next_value`].
    pub fn set_value(&self, sequence: &Sequence, next: i64) -> Result<()> {
        self.store()?.set_ahead(sequence.counter, next).map_err(from_heap)
    }

    /// Waits until all values that a sequence has given are durable.
    ///
    /// # Errors
    /// As [`Heap::next_value`]; those of the log.
    pub async fn keep_values(&self, session: &Session, sequence: &Sequence) -> Result<()> {
        let kept = self.store()?.flush_counter(session, sequence.counter, sequence.increment).await;
        match kept {
            // It was dropped meanwhile, and gives no value twice.
            Err(HeapError::WrongObject { .. }) => Ok(()),
            kept => kept.map_err(from_heap),
        }
    }
}
