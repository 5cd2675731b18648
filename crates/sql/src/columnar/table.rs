//! A columnar table as a query sees it: its columns, and the segments that it had when the query began.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use cellar_cell::{Request, Scan, ScanStats, Segment};
use cellar_format::from_arrow::column_type;
use cellar_format::header::{COLUMNS_MAX, REGION};
use cellar_format::segment::SCHEMA_MAX;
use cellar_format::{Aggregate, Header, Predicate, Value, Verdict};
use cellar_instance::Instance;
use cellar_instance::budget::Consumer;
use cellar_instance::catalog::{array_of, enum_of_form};
use cellar_instance::parameters::definitions::SCAN_DEPTH;
use cellar_instance::scans::{ScanFilter, ScanRecord, scan_error};
use cellar_wait::{Event, Session};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};

use crate::columnar::filter_outcome::FilterOutcome;
use crate::columnar::groups::scalar_of;
use crate::columnar::translate::Reason;
use crate::error::Error;
use crate::json::form::{FORM, Form};

/// A table with its segments open.
pub struct OpenTable {
    name: String,
    schema: SchemaRef,
    segments: Vec<Arc<Segment>>,
    disks: usize,
    instance: Arc<Instance>,
    session: (Session, u32),
    statistics: Statistics,
}

impl std::fmt::Debug for OpenTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenTable({}, {} row groups)", self.name, self.row_groups())
    }
}

/// The schema that a table of such rows has.
///
/// # Errors
/// 00902 for a column of a type that columnar tables do not have.
pub fn table_schema(rows: &Schema) -> Result<SchemaRef, Error> {
    let field = |field: &Arc<Field>| match column_type(field.data_type()) {
        Some(data_type) => {
            let made = Field::new(field.name(), data_type, true);
            // Other forms are set by the statement that makes the table.
            Ok(with_enum_of(made, field))
        }
        None => {
            let (name, data_type) = (field.name(), field.data_type());
            let text = format!("column \"{name}\": columnar tables have no type {data_type}");
            Err(Error::new(902, "0A000", text).next(
                "cast it to one of boolean, int, bigint, double, decimal, date, time, timestamp, \
                 varchar, bytea",
            ))
        }
    };
    let fields: Vec<Field> = rows.fields().iter().map(field).collect::<Result<_, _>>()?;
    if fields.is_empty() {
        return Err(Error::new(904, "42601", "a table needs a column at least"));
    }
    if fields.len() > COLUMNS_MAX {
        let text = format!("{} columns: a columnar table has {COLUMNS_MAX} at most", fields.len());
        return Err(Error::new(1792, "54011", text).next("make it two tables with one key"));
    }
    let schema = Schema::new(fields);
    if schema_text(&schema).len() > SCHEMA_MAX {
        let text = format!("the names of the columns take more than {SCHEMA_MAX} bytes");
        return Err(Error::new(972, "42622", text).next("choose shorter names"));
    }
    Ok(Arc::new(schema))
}

/// The columns of a table as the catalog stores them: Arrow names and types, the length of VARCHAR(n),
/// and the DEFAULT, as JSON.
pub fn schema_text(schema: &Schema) -> String {
    let column = |field: &Arc<Field>| {
        let mut column = serde_json::json!({
            "name": field.name(),
            "type": field.data_type().to_string(),
            "nullable": field.is_nullable(),
        });
        if let Some(length) = length_of(field) {
            column[LENGTH] = length.into();
        }
        if let Some(form) = type_of_texts(field) {
            column[FORM] = form.into();
        }
        if let Some(value) = default_of(field) {
            column[DEFAULT] = value.into();
        }
        column
    };
    serde_json::Value::Array(schema.fields().iter().map(column).collect()).to_string()
}

/// Refuses columns whose types the catalog would not return unchanged.
///
/// # Errors
/// 00902 with the column.
pub fn check_kept(schema: &Schema) -> Result<(), Error> {
    let is_kept = |field: &Arc<Field>| {
        let text = schema_text(&Schema::new(vec![Arc::clone(field)]));
        let own = field.data_type().to_string();
        schema_of_text(&text).is_ok_and(|kept| kept.field(0).data_type().to_string() == own)
    };
    match schema.fields().iter().find(|field| field.data_type().is_nested() && !is_kept(field)) {
        None => Ok(()),
        Some(field) => {
            let text = format!(
                "column \"{}\" has fields inside whose names a table cannot keep: empty ones, or \
                 with quotes or line ends",
                field.name()
            );
            Err(Error::new(902, "42601", text)
                .next("select the fields one by one, or give them other names"))
        }
    }
}

/// The metadata key, in a field and in the catalog, for the most characters of a value.
const LENGTH: &str = "length";

/// The most characters of a value of the column, if declared.
pub fn length_of(field: &Field) -> Option<usize> {
    field.metadata().get(LENGTH)?.parse().ok()
}

/// A field whose values have at most so many characters.
pub fn with_length(field: Field, length: usize) -> Field {
    with(field, LENGTH, &length.to_string())
}

/// How texts of a column are stored, if declared.
pub(crate) fn form_of(field: &Field) -> Option<Form> {
    Form::of(field.metadata().get(FORM)?)
}

/// The type that the texts of a column stand for, if declared: `uuid`, `json`, `jsonb`.
pub fn type_of_texts(field: &Field) -> Option<&str> {
    field.metadata().get(FORM).map(String::as_str)
}

/// The oid of the enum type of the texts, if declared.
pub fn enum_of(field: &Field) -> Option<u32> {
    type_of_texts(field).and_then(enum_of_form)
}

/// The oid of the array type of an enum type.
pub fn arrays_of_enum(oid: u32) -> u32 {
    array_of(oid)
}

/// A field with the enum type of another one, if that has any.
pub(crate) fn with_enum_of(field: Field, other: &Field) -> Field {
    match type_of_texts(other).filter(|form| enum_of_form(form).is_some()) {
        Some(form) => with(field, FORM, form),
        None => field,
    }
}

/// A field whose texts are stored so.
pub(crate) fn with_form(field: Field, form: Form) -> Field {
    with(field, FORM, form.name())
}

/// The metadata key, in a field and in the catalog, for the DEFAULT of a column, as it was written.
const DEFAULT: &str = "default";

/// The DEFAULT of a column, if declared.
pub fn default_of(field: &Field) -> Option<&str> {
    field.metadata().get(DEFAULT).map(String::as_str)
}

/// A field with a DEFAULT.
pub fn with_default(field: Field, value: &str) -> Field {
    with(field, DEFAULT, value)
}

/// A field without a DEFAULT.
pub fn without_default(field: Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.remove(DEFAULT);
    field.with_metadata(metadata)
}

fn with(field: Field, key: &str, value: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(key.to_owned(), value.to_owned());
    field.with_metadata(metadata)
}

/// The columns that [`schema_text`] wrote, as queries know them.
///
/// # Errors
/// 70108 the catalog holds something else.
pub fn schema_of_text(text: &str) -> Result<SchemaRef, Error> {
    let checked = checked_schema(text)?;
    let fields = checked.fields().iter().map(|field| field.as_ref().clone());
    Ok(Arc::new(Schema::new(fields.map(|f| f.with_metadata([].into())).collect::<Vec<_>>())))
}

/// The columns that [`schema_text`] wrote, for writers of rows: with the lengths of [`length_of`] and
/// what [`default_of`] gives.
///
/// # Errors
/// 70108 the catalog holds something else.
pub fn checked_schema(text: &str) -> Result<SchemaRef, Error> {
    let damaged = |why: &str| {
        Error::new(70108, "XX001", format!("the columns of a table in the catalog: {why}"))
            .next("use the program that wrote it, or newer")
    };
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|e| damaged(&e.to_string()))?;
    let columns = value.as_array().ok_or_else(|| damaged("no list"))?;
    let field = |column: &serde_json::Value| {
        let text = |key: &str| column[key].as_str().ok_or_else(|| damaged(key));
        let data_type = text("type")?.parse().map_err(|_| damaged("unknown type"))?;
        let nullable = column["nullable"].as_bool().unwrap_or(true);
        let field = Field::new(text("name")?, data_type, nullable);
        let field = match column[LENGTH].as_u64().and_then(|length| usize::try_from(length).ok()) {
            Some(length) => with_length(field, length),
            None => field,
        };
        let field = match column[FORM].as_str() {
            Some(form) if Form::of(form).is_some() || enum_of_form(form).is_some() => {
                with(field, FORM, form)
            }
            Some(_) => return Err(damaged("an unknown form of texts")),
            None => field,
        };
        Ok(match column[DEFAULT].as_str() {
            Some(value) => with_default(field, value),
            None => field,
        })
    };
    let fields: Vec<Field> = columns.iter().map(field).collect::<Result<_, Error>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

impl OpenTable {
    /// A table whose segments are open.
    pub fn new(
        name: String,
        schema: SchemaRef,
        segments: Vec<Arc<Segment>>,
        disks: usize,
        instance: Arc<Instance>,
        session: (Session, u32),
    ) -> OpenTable {
        let statistics = statistics_of(&schema, &segments);
        OpenTable { name, schema, segments, disks, instance, session, statistics }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its segments.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Reads that a scan of it keeps in flight.
    pub fn depth(&self) -> usize {
        let depth = self.instance.parameters().integer(SCAN_DEPTH);
        let depth = usize::try_from(depth).unwrap_or(usize::MAX).saturating_mul(self.disks.max(1));
        // If memory is short, only as many as it has room for, each up to a row group.
        let room = self.instance.budget().limit(Consumer::IoBuffers) / REGION as u64;
        depth.min(usize::try_from(room).unwrap_or(usize::MAX)).max(2)
    }

    /// Row groups of all its segments.
    pub fn row_groups(&self) -> usize {
        self.segments.iter().map(|segment| segment.headers().len()).sum()
    }

    /// The session and the event that a scan's waits are charged to.
    pub fn waits(&self) -> (Session, Event) {
        (self.session.0.clone(), Event::CELL_SMART_TABLE_SCAN)
    }

    /// Statistics of all its rows: exact, because rows do not change.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn headers(&self) -> impl Iterator<Item = &Header> + Clone {
        self.segments.iter().flat_map(|segment| segment.headers())
    }

    /// The number of its rows.
    pub fn rows(&self) -> u64 {
        rows_of(&self.segments)
    }

    /// The smallest and the largest number of a column; `None`: it has none, or is of strings.
    pub fn range(&self, column: usize) -> Option<(i128, i128)> {
        let ends = self.segments.iter().filter_map(|segment| {
            let (low, high) = segment.summary().columns.get(column)?.ends.as_ref()?;
            Some((low.number()?, high.number()?))
        });
        ends.reduce(|(low, high), (min, max)| (low.min(min), high.max(max)))
    }

    /// A predicate, or the reason against it if its computation may exceed 128 bits.
    pub fn fitting(&self, predicate: Predicate) -> Result<Predicate, Reason> {
        match self.headers().all(|header| predicate.fits(header)) {
            true => Ok(predicate),
            false => Err("may overflow: evaluated on decoded rows".to_owned()),
        }
    }

    /// Whether all sums of an aggregation fit 128 bits.
    pub fn fits(&self, aggregate: &Aggregate) -> bool {
        aggregate.fits(self.headers())
    }

    /// Rows of the row groups that the storage index does not exclude.
    pub fn rows_after(&self, conjuncts: &[Predicate]) -> u64 {
        let none = |header: &&Header| {
            conjuncts.iter().any(|conjunct| conjunct.of_header(header) == Verdict::None)
        };
        self.headers().filter(|header| !none(header)).map(|header| u64::from(header.rows)).sum()
    }

    /// Row groups that the storage index does not exclude.
    pub fn row_groups_after(&self, conjuncts: &[Predicate]) -> usize {
        let none = |header: &&Header| {
            conjuncts.iter().any(|conjunct| conjunct.of_header(header) == Verdict::None)
        };
        self.headers().filter(|header| !none(header)).count()
    }

    /// Begins a scan, and records it for v$cell_scan.
    pub fn begin_scan(
        &self,
        request: Request,
        told: Vec<FilterOutcome>,
        stats: Arc<ScanStats>,
        partial: Option<String>,
    ) -> Arc<Scan> {
        let scans = self.instance.scans();
        let filter =
            |told: FilterOutcome| ScanFilter { text: told.conjunct, residual: told.reason };
        scans.begin(ScanRecord {
            number: 0,
            table: self.name.clone(),
            sid: self.session.1,
            began: self.instance.env().wall().unix_nanos,
            filters: told.into_iter().map(filter).collect(),
            partial,
            stats: Arc::clone(&stats),
        });
        let env = Arc::clone(self.instance.env());
        Arc::new(Scan::new(request, scans.cache().clone(), env, stats))
    }

    /// An error of a scan as an error of ours.
    pub fn failed(&self, error: &cellar_cell::Error) -> Error {
        Error::from(scan_error(&self.name, error))
    }
}

fn statistics_of(schema: &Schema, segments: &[Arc<Segment>]) -> Statistics {
    let column = |(at, field): (usize, &Arc<Field>)| {
        let of = |segment: &Arc<Segment>| segment.summary().columns.get(at).cloned();
        let known = segments.iter().filter_map(of).reduce(|a, b| a.with(&b));
        // A string known only by its prefix is not an exact bound.
        let ends = known.as_ref().filter(|known| known.is_exact).and_then(|k| k.ends.as_ref());
        let end = |value: Option<&Value>| {
            let scalar = scalar_of(Some(value?), field.data_type()).ok();
            scalar.map(Precision::Exact)
        };
        ColumnStatistics {
            null_count: Precision::Exact(known.as_ref().map_or(0, |known| known.nulls as usize)),
            min_value: end(ends.map(|(low, _)| low)).unwrap_or(Precision::Absent),
            max_value: end(ends.map(|(_, high)| high)).unwrap_or(Precision::Absent),
            ..ColumnStatistics::new_unknown()
        }
    };
    Statistics {
        num_rows: Precision::Exact(rows_of(segments) as usize),
        total_byte_size: Precision::Absent,
        column_statistics: schema.fields().iter().enumerate().map(column).collect(),
    }
}

fn rows_of(segments: &[Arc<Segment>]) -> u64 {
    segments.iter().map(|segment| segment.summary().rows).sum()
}
