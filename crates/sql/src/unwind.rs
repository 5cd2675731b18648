//! Panics in a statement, turned into errors of that statement: other sessions of the process go on.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{FutureExt, StreamExt};

use crate::error::Error;

fn error_of(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.and_then(|text| text.lines().next()).unwrap_or("no message");
    Error::new(600, "XX000", format!("internal error: {text}"))
        .next("this is a defect: please report it with the statement; other sessions go on")
}

/// The result of a future, or its panic as an error.
///
/// # Errors
/// Its own, or 00600.
pub(crate) async fn caught<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => Err(error_of(&*panic)),
    }
}

/// The same rows; a panic ends them with 00600.
pub(crate) fn caught_stream(stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let rows = AssertUnwindSafe(stream).catch_unwind().map(|next| match next {
        Ok(batch) => batch,
        Err(panic) => Err(DataFusionError::External(Box::new(error_of(&*panic)))),
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use futures_util::{FutureExt, TryStreamExt, stream};

    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let failed = caught(async {
            if Schema::empty().fields().is_empty() {
                panic!("attempt to divide by zero");
            }
            Ok(())
        });
        let error = failed.now_or_never().expect("it waits for nothing").unwrap_err();
        assert_eq!(
            (error.number, &*error.message),
            (600, "internal error: attempt to divide by zero")
        );
        let batches = stream::iter([1]).map(|_| panic!("of {}", "a batch"));
        let batches = RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), batches);
        let read = caught_stream(Box::pin(batches)).try_collect::<Vec<_>>().now_or_never();
        let error = read.expect("it waits for nothing").unwrap_err();
        assert!(error.to_string().contains("internal error: of a batch"), "{error}");
    }
}
