//! SET, RESET and SHOW; the time that a statement may take.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{Stream, StreamExt, stream};

use crate::engine::cancel::Began;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::statement::Setting;

/// The columns of SHOW.
pub(super) fn columns_of(setting: &Setting) -> Option<SchemaRef> {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let fields = match setting {
        Setting::Set { .. } | Setting::ResetAll | Setting::Assume { .. } => return None,
        Setting::Show(name) => vec![text(name)],
        Setting::ShowAll => vec![text("name"), text("setting"), text("description")],
    };
    Some(Arc::new(Schema::new(fields)))
}

impl Engine {
    /// Runs a statement about settings.
    pub(super) async fn about_settings(&self, setting: Setting) -> Result<Outcome, Error> {
        match setting {
            Setting::Set { values, is_local } => self.set(values, is_local).await,
            Setting::Assume { what, is_local } => self.assume(&what, is_local).await,
            Setting::ResetAll => {
                self.settings.reset_all();
                self.paths.set(None, false);
                Ok(done("All settings have their defaults."))
            }
            Setting::Show(name) => {
                let (name, value) = self.shown(&name).await?;
                Ok(rows_of(&Setting::Show(name), vec![value]))
            }
            Setting::ShowAll => {
                let all = self.settings.all();
                let names = all.iter().map(|(name, ..)| (*name).to_owned()).collect();
                let values = all.iter().map(|(_, value, _)| value.clone()).collect();
                let about = all.iter().map(|(.., about)| (*about).to_owned()).collect();
                Ok(rows_of(&Setting::ShowAll, vec![names, values, about]))
            }
        }
    }

    async fn set(
        &self,
        values: Vec<(String, Option<String>)>,
        is_local: bool,
    ) -> Result<Outcome, Error> {
        let is_in_block = match self.host.rows() {
            Some(rows) => rows.is_in_block().await,
            None => false,
        };
        let mut said = Vec::with_capacity(values.len());
        for (name, value) in values {
            if is_local && !is_in_block {
                // It would not outlast this statement, but is still checked for errors.
                let before = self.settings.savepoint();
                let set = self.settings.set(&name, value.as_deref(), true);
                self.settings.back_to(&before);
                set?;
                return Ok(Outcome::Done {
                    message: "Nothing is set.".to_owned(),
                    notices: vec!["SET LOCAL has effect in a transaction alone".to_owned()],
                });
            }
            self.settings.set(&name, value.as_deref(), is_local)?;
            let (name, value) = self.settings.get(&name)?;
            said.push(match value.is_empty() {
                true => format!("{name} is empty."),
                false => format!("{name} is {value}."),
            });
        }
        Ok(done(said.join(" ")))
    }

    /// A setting, or a mode of the transaction.
    async fn shown(&self, name: &str) -> Result<(String, Vec<String>), Error> {
        let modes = match self.host.rows() {
            Some(rows) => rows.modes_now().await,
            None => (false, false),
        };
        let found = match name.to_ascii_lowercase().as_str() {
            "transaction_isolation" if modes.0 => "repeatable read",
            "transaction_isolation" => "read committed",
            "transaction_read_only" if modes.1 => "on",
            "transaction_read_only" => "off",
            _ => {
                let (name, value) = self.settings.get(name)?;
                return Ok((name, vec![value]));
            }
        };
        Ok((name.to_ascii_lowercase(), vec![found.to_owned()]))
    }

    /// How long a transaction may be open without a statement, as set in the session; the engine does not
    /// enforce it.
    pub fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.settings.now().idle_timeout
    }

    /// The value of a setting, as SHOW returns it; `None`: there is none of that name.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name).ok().map(|(_, value)| value)
    }

    /// How often settings have changed: whoever reports them need not look again until this number changes.
    pub fn changes_of_settings(&self) -> u64 {
        self.settings.changes()
    }

    /// Sets what a client asks for when it connects.
    ///
    /// # Errors
    /// 42704 there is none of that name; 22023 the value is none of its values.
    pub fn set_first(&self, name: &str, value: &str) -> Result<(), Error> {
        self.settings.set_first(name, value)
    }

    /// The outcome of a statement, whose row stream is subject to the remaining statement timeout.
    pub(super) fn told_in_time(&self, outcome: Outcome, began: &Began) -> Outcome {
        match outcome {
            Outcome::Rows(rows) => {
                let (schema, host) = (rows.schema(), Arc::clone(&self.host));
                let late = move |error| {
                    if let Some(rows) = host.rows() {
                        rows.has_failed();
                    }
                    DataFusionError::External(Box::new(error))
                };
                let rows = until(rows, began.clone(), late);
                Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
            }
            Outcome::Copied(mut copied) => {
                let host = Arc::clone(&self.host);
                let late = move |error| {
                    if let Some(rows) = host.rows() {
                        rows.has_failed();
                    }
                    error
                };
                copied.bytes = Box::pin(until(copied.bytes, began.clone(), late));
                Outcome::Copied(copied)
            }
            Outcome::Done { message, .. } if self.settings.now().is_quiet => {
                Outcome::Done { message, notices: Vec::new() }
            }
            outcome => outcome,
        }
    }
}

/// A stream that ends with an error if it times out or is cancelled.
fn until<T: Send, E: Send>(
    rows: impl Stream<Item = Result<T, E>> + Send + Unpin,
    began: Began,
    late: impl Fn(Error) -> E + Send,
) -> impl Stream<Item = Result<T, E>> + Send {
    stream::unfold(Some((rows, began, late)), move |state| async move {
        let (mut rows, began, late) = state?;
        match began.ends(rows.next()).await {
            Ok(next) => next.map(|next| (next, Some((rows, began, late)))),
            Err(error) => {
                drop(rows);
                Some((Err(late(error)), None))
            }
        }
    })
}

fn rows_of(setting: &Setting, columns: Vec<Vec<String>>) -> Outcome {
    let schema = columns_of(setting).unwrap_or_else(|| Arc::new(Schema::empty()));
    let columns = columns.into_iter().map(|own| Arc::new(StringArray::from(own)) as _).collect();
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(DataFusionError::from);
    let rows = stream::once(std::future::ready(rows));
    Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}
