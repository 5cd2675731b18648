//! COPY as PostgreSQL has it: rows of a file or a stream into a table, and rows of a query into one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_instance::catalog::Rights;
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::buffered::BufWriter;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::io::AsyncWriteExt;

use crate::copy::form::Form;
use crate::copy::read::Reader;
use crate::copy::write::Writer;
use crate::copy::{Copy, CopyInput, CopyOutput, Place, What};
use crate::engine::columnar::kept_rows;
use crate::engine::{Engine, Outcome, is_public};
use crate::error::Error;
use crate::failure::{from_datafusion, from_store, io_error};
use crate::files::place::Place as Files;
use crate::instants::zoned::fields_in_zone;
use crate::parse::parse;
use crate::path::to_url;
use crate::rows::{Change, Checks, RowColumns, Scope, Sink, defaults};
use crate::statement::Statement;
use crate::unwind::{caught, caught_stream};

/// Bytes of one part of a file that is written.
const PART_BYTES: usize = 8 << 20;

/// The DEFAULT of a column, by its place.
type Given = (usize, Arc<dyn PhysicalExpr>);

fn counted(count: u64) -> Outcome {
    Outcome::Changed(count, "copied")
}

impl Engine {
    /// Runs a COPY FROM STDIN on the bytes of a stream. They are read to their end, or to the line `\.`, unless the
    /// statement fails before.
    ///
    /// # Errors
    /// As of [`Engine::execute`]; those of the stream; another statement.
    #[boxed]
    pub async fn copy_in(&self, sql: &str, input: CopyInput) -> Result<Outcome, Error> {
        let began = self.began();
        let copied = began.ends(caught(self.copy_stream(sql, input))).await;
        self.concluded(copied.and_then(|copied| copied)).await
    }

    async fn copy_stream(&self, sql: &str, input: CopyInput) -> Result<Outcome, Error> {
        self.check_role()?;
        let statement = parse(sql)?;
        self.refuse_behind_failure(&statement).await?;
        match statement {
            Statement::Copy(copy) if copy.reads_stream() => {
                self.copy(sql, *copy, Some(input)).await.map(Outcome::shown)
            }
            _ => Err(Error::syntax("no COPY FROM STDIN: there is nothing to give it")),
        }
    }

    /// Runs a COPY.
    #[boxed]
    pub(super) async fn copy(
        &self,
        sql: &str,
        copy: Copy,
        input: Option<CopyInput>,
    ) -> Result<Outcome, Error> {
        if matches!(copy.place, Place::File(_)) {
            self.check_superuser("to COPY to or from a file of the server")?;
        }
        if !copy.is_from {
            return Box::pin(self.copy_to(sql, copy)).await;
        }
        let What::Table { table, columns } = &copy.what else {
            return Err(Error::syntax("COPY (query) FROM"));
        };
        let input = match (&copy.place, input) {
            (Place::File(path), _) => self.file_input(path).await?,
            (Place::Stream, Some(input)) => input,
            (Place::Stream, None) => {
                return Err(Error::new(
                    70012,
                    "08P01",
                    "COPY FROM STDIN, and nothing is given to it",
                )
                .next("at a prompt and in a file rows follow the statement, up to a line \\."));
            }
        };
        let table = &*self.resolved_name(table)?;
        let reference = TableReference::parse_str(table);
        self.check_own(&reference)?;
        if is_public(&reference) && self.is_columnar(table) {
            return self.copy_into_segment(&reference, (&copy, columns), input).await;
        }
        self.copy_into_heap(&reference, (&copy, columns), input).await
    }

    async fn copy_into_heap(
        &self,
        reference: &TableReference,
        what: (&Copy, &[String]),
        input: CopyInput,
    ) -> Result<Outcome, Error> {
        let Some(rows) = self.host.rows().filter(|rows| rows.are_open()) else {
            return Err(self.no_target(reference).await);
        };
        let _turn = self.turn.lock().await;
        let scope = rows.begin_statement().await?;
        let in_scope = self.in_scope(scope.clone());
        let copied = match self.row_table(reference) {
            Ok(Some(columns)) => self.copy_rows(&scope, Arc::new(columns), what, input).await,
            Ok(None) => Err(self.no_target(reference).await),
            Err(error) => Err(error),
        };
        drop(in_scope);
        self.ended(rows, &scope, copied.map(counted)).await
    }

    async fn copy_rows(
        &self,
        scope: &Scope,
        planned: Arc<RowColumns>,
        (copy, names): (&Copy, &[String]),
        input: CopyInput,
    ) -> Result<u64, Error> {
        scope.check_writable()?;
        let columns = scope.locked(&planned).await?;
        let places = places(&columns.schema, &columns.name, names)?;
        self.check_inserts(&columns.name, &columns.schema, &places)?;
        let checks = Checks::of(&self.state(), &columns)?;
        let given = self.given(&columns, &places)?;
        let change = Change { columns: &columns, checks: &checks, scope, wants_rows: false };
        let schema = Arc::clone(&columns.schema);
        let mut reader = Reader::new(input, &copy.form, &columns.name, schema, places)?;
        let mut sink = Sink::new(&change);
        while let Some(batch) = reader.next().await? {
            sink.add(&filled(batch, &given)?).await?;
        }
        sink.finish().await
    }

    /// Refuses a role that may not insert values into these columns.
    fn check_inserts(&self, key: &str, schema: &SchemaRef, places: &[usize]) -> Result<(), Error> {
        let names = places.iter().map(|at| schema.field(*at).name().as_str());
        self.check_columns(key, Rights::INSERT, names)
    }

    /// The DEFAULT of each column that is not copied and has one.
    fn given(&self, columns: &RowColumns, places: &[usize]) -> Result<Vec<Given>, Error> {
        let state = self.state();
        let names = DFSchema::try_from(columns.query_schema(false));
        let names = names.map_err(|error| from_datafusion(&error))?;
        let mut given = Vec::new();
        for (name, value) in defaults(&state, columns) {
            let at = columns.column(&name)?;
            if !places.contains(&at) {
                let value = state.create_physical_expr(value?, &names);
                given.push((at, value.map_err(|error| from_datafusion(&error))?));
            }
        }
        Ok(given)
    }

    async fn copy_into_segment(
        &self,
        reference: &TableReference,
        (copy, names): (&Copy, &[String]),
        input: CopyInput,
    ) -> Result<Outcome, Error> {
        self.refuse_in_block("COPY into a columnar table").await?;
        let (columnar, name) = (self.columnar()?, reference.table());
        let schema = columnar.schema(name)?;
        let places = places(&schema, name, names)?;
        self.check_inserts(name, &schema, &places)?;
        let shown = fields_in_zone(&schema, &self.settings.now().zone);
        let reader = Reader::new(input, &copy.form, name, shown, places)?;
        let batches = stream::try_unfold(reader, |mut reader| async move {
            let batch = reader.next().await;
            let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(batch.map(|batch| (batch, reader)))
        });
        let threads = self.state().config().target_partitions();
        let written = {
            let batches = kept_rows(Box::pin(batches), Arc::clone(&schema));
            columnar.append(name, &schema, batches, (threads, None)).await?
        };
        Ok(counted(written.rows))
    }

    /// Why rows cannot be copied into a relation.
    async fn no_target(&self, reference: &TableReference) -> Error {
        let name = reference.table();
        if self.is_view(reference).await {
            return Error::new(
                1732,
                "42809",
                format!("\"{name}\" is a view: no rows are copied into it"),
            );
        }
        match is_public(reference) && self.has_table(name) {
            true => Error::not_yet(format!("COPY into the external table \"{name}\""))
                .next("its rows are files of yours: create a table, and copy the rows into that"),
            false => {
                Error::new(942, "42P01", format!("table \"{name}\" does not exist")).of_name([name])
            }
        }
    }

    // --- files ---

    /// A path in a statement: its object store, and its path there.
    async fn copied_file(
        &self,
        path: &str,
    ) -> Result<(Files, Arc<dyn ObjectStore>, object_store::path::Path), Error> {
        let mut location = to_url(path)?;
        if !location.contains("://") {
            location = self.absolute(&location)?;
        }
        let state = self.state();
        let files = Files::of(&state, &location, "").await?;
        let (_, store) = files.store(&state)?;
        let url = files.urls.first().filter(|_| !files.is_many());
        let Some(place) = url.map(|url| url.prefix().clone()) else {
            return Err(Error::new(70012, "22023", format!("\"{path}\" is no single file"))
                .next("name one file"));
        };
        Ok((files, store, place))
    }

    async fn file_input(&self, path: &str) -> Result<CopyInput, Error> {
        let (files, store, place) = self.copied_file(path).await?;
        match store.get(&place).await {
            Ok(found) => Ok(Box::pin(found.into_stream().map_err(|error| from_store(&error)))),
            Err(object_store::Error::NotFound { .. }) => Err(files.gone()),
            Err(error) => Err(self.restored(from_store(&error))),
        }
    }

    // --- COPY TO ---

    async fn copy_to(&self, sql: &str, copy: Copy) -> Result<Outcome, Error> {
        let statement = match copy.what {
            What::Query(statement) => *statement,
            What::Table { table, columns } => {
                let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
                let columns = match columns.is_empty() {
                    true => "*".to_owned(),
                    false => columns.iter().map(quoted).collect::<Vec<_>>().join(", "),
                };
                let Statement::Query(statement) = parse(&format!("select {columns} from {table}"))?
                else {
                    return Err(Error::syntax("COPY of no table"));
                };
                *statement
            }
        };
        let rows = match Box::pin(self.in_transaction(sql, statement)).await? {
            Outcome::Rows(rows) => caught_stream(rows),
            _ => {
                return Err(Error::new(70012, "0A000", "COPY of a statement that gives no rows")
                    .next("COPY (SELECT ..), or a statement with RETURNING"));
            }
        };
        let writer = Writer::new(&copy.form, &rows.schema())?;
        let mut output = output(rows, writer, &copy.form);
        // A write error fails the transaction, as a read error does.
        let host = Arc::clone(&self.host);
        output.bytes = Box::pin(output.bytes.inspect_err(move |_| {
            if let Some(rows) = host.rows() {
                rows.has_failed();
            }
        }));
        match copy.place {
            Place::Stream => Ok(Outcome::Copied(output)),
            Place::File(path) => self.copy_to_file(&path, output).await,
        }
    }

    async fn copy_to_file(&self, path: &str, mut output: CopyOutput) -> Result<Outcome, Error> {
        let (_, store, place) = self.copied_file(path).await?;
        let mut file = BufWriter::with_capacity(store, place, PART_BYTES);
        let written = async {
            while let Some(bytes) = output.bytes.try_next().await? {
                file.put(bytes).await.map_err(|error| from_store(&error))?;
            }
            // From here on the file is visible under its name.
            file.shutdown().await.map_err(|error| io_error(&error))
        };
        if let Err(error) = written.await {
            // Even if this fails, the file never gets a name.
            let _ = file.abort().await;
            return Err(self.restored(error));
        }
        Ok(counted(output.counter()()))
    }
}

/// The bytes of rows.
fn output(rows: SendableRecordBatchStream, writer: Writer, form: &Form) -> CopyOutput {
    let (schema, count) = (rows.schema(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&count);
    let header = Bytes::from(writer.header(&schema));
    let trailer = Bytes::from(writer.trailer());
    let lines = rows.map(move |batch| {
        let batch = batch.map_err(|error| from_datafusion(&error))?;
        let bytes = writer.rows(&batch)?;
        counted.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok(Bytes::from(bytes))
    });
    let some = |bytes: Bytes| stream::iter((!bytes.is_empty()).then_some(Ok(bytes)));
    let bytes = Box::pin(some(header).chain(lines).chain(some(trailer)));
    let Form { is_csv, is_binary, .. } = *form;
    CopyOutput { bytes, is_csv, is_binary, columns: schema.fields().len(), rows: count }
}

/// The positions of the named columns; of all, if none are named.
fn places(schema: &SchemaRef, table: &str, names: &[String]) -> Result<Vec<usize>, Error> {
    if names.is_empty() {
        return Ok((0..schema.fields().len()).collect());
    }
    let mut places = Vec::new();
    for name in names {
        let found = schema.fields().iter().position(|field| field.name() == name);
        let Some(at) = found else {
            let known: Vec<&str> =
                schema.fields().iter().map(|field| field.name().as_str()).collect();
            let text = format!("table \"{table}\" has no column \"{name}\"");
            return Err(Error::new(904, "42703", text)
                .of_name([name.as_str()])
                .next(format!("its columns are {}", known.join(", "))));
        };
        if places.contains(&at) {
            let text = format!("column \"{name}\" is copied twice");
            return Err(Error::new(957, "42701", text).next("name it once"));
        }
        places.push(at);
    }
    Ok(places)
}

/// Rows with the DEFAULT of columns that were not copied.
fn filled(batch: RecordBatch, given: &[Given]) -> Result<RecordBatch, Error> {
    if given.is_empty() {
        return Ok(batch);
    }
    let mut arrays = batch.columns().to_vec();
    for (at, value) in given {
        let value = value.evaluate(&batch).and_then(|value| value.into_array(batch.num_rows()));
        arrays[*at] = value.map_err(|error| from_datafusion(&error))?;
    }
    // The types of DEFAULTs are those of their columns.
    let (schema, arrays) = (batch.schema(), arrays);
    let fields = schema.fields().iter().zip(&arrays);
    let fields: Vec<_> = fields
        .map(|(field, array)| field.as_ref().clone().with_data_type(array.data_type().clone()))
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new(schema, arrays).map_err(|error| crate::failure::from_arrow(&error))
}
