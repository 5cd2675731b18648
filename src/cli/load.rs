//! `cellar load`: loads files and generated data into tables, atomically.

use std::path::PathBuf;
use std::sync::Arc;

use cellar_instance::NextStep;
use cellar_instance::catalog::name;
use cellar_io::{SharedEnv, shell};
use cellar_sql::columnar::source;
use cellar_sql::columnar::table::table_schema;
use cellar_sql::columnar::tables::Written;
use cellar_sql::columnar::write::OnProgress;
use cellar_sql::csv::CsvForm;
use cellar_sql::csv::form::encoding_of;
use cellar_sql::csv::reject::Rejects;
use cellar_sql::csv::types::type_of_name;
use cellar_sql::load::{self, LoadOptions, Loaded};
use cellar_sql::source_format::SourceFormat;
use cellar_sql::tpch::TpchTable;
use cellar_sql::{Engine, Error, Host};
use cellar_storage::size::{show_bytes, show_count, show_duration};
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::Serialize;

use super::database::{Database, cores};
use super::dir;
use super::fault::Fault;
use super::output::{self, Format};
use super::progress::Progress;

/// Arguments of `load`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar load cellar-demo --tpch 1            eight tables, 8.7 million rows
  cellar load cellar-demo trips.parquet       the table trips
  cellar load cellar-demo a.csv --table b     the table b; types found in it
  cellar load cellar-demo b.csv --table b --append   more rows for b
  cellar load cellar-demo a.csv --no-header   columns column_1, column_2, ...
  cellar load cellar-demo a.csv --delimiter ';'
  cellar load cellar-demo a.csv.gz --encoding latin1 --null '\\N'
  cellar load cellar-demo a.csv --type zip=varchar --type 'price=decimal(9,2)'
  cellar load cellar-demo a.csv --reject bad.csv   sets bad rows aside")]
pub struct Args {
    /// DIR and FILE: the database ($CELLAR_DIR if it is left out) and what to load.
    #[arg(value_name = "DIR FILE", num_args = 0..=2)]
    pub words: Vec<PathBuf>,
    /// Generate TPC-H's tables at this scale: 1 is 8.7 million rows.
    #[arg(long, value_name = "SF")]
    pub tpch: Option<f64>,
    /// The table to make, with its schema if that is not public; the name of the file without its ending if left out.
    #[arg(long, value_name = "T", conflicts_with = "tpch")]
    pub table: Option<String>,
    /// Line 1 of a CSV file names the columns, whatever it looks like.
    #[arg(long, conflicts_with_all = ["tpch", "no_header"])]
    pub header: bool,
    /// Line 1 of a CSV file is a row.
    #[arg(long, conflicts_with = "tpch")]
    pub no_header: bool,
    /// What separates the fields of a CSV file, one character; a comma if left out, in .tsv files a
    /// tab.
    #[arg(long, value_name = "C", value_parser = delimiter, conflicts_with = "tpch")]
    pub delimiter: Option<u8>,
    /// The type of a column of a CSV file, such as zip=varchar or price=decimal(9,2); the others are
    /// found by reading the file.
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = column_type, conflicts_with = "tpch")]
    pub types: Vec<(String, String)>,
    /// The field without quotes that stands for no value in a CSV file; an empty one if left out.
    #[arg(long, value_name = "TEXT", conflicts_with = "tpch")]
    pub null: Option<String>,
    /// The encoding of a CSV file, such as latin1 or utf-16; UTF-8 if left out.
    #[arg(long, value_name = "NAME", value_parser = encoding, conflicts_with = "tpch")]
    pub encoding: Option<String>,
    /// Write rejected rows of a CSV file to this file, and load the others.
    #[arg(long, value_name = "FILE", conflicts_with = "tpch")]
    pub reject: Option<PathBuf>,
    /// Add the rows to an existing table.
    #[arg(long, conflicts_with_all = ["tpch", "parquet"])]
    pub append: bool,
    /// Keep the rows as Parquet files in the group, read in place, instead of a columnar table.
    #[arg(long)]
    pub parquet: bool,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ if text == "tab" || text == "\\t" => Ok(b'\t'),
        _ => Err("give one character that is no quote, or tab".to_owned()),
    }
}

fn column_type(text: &str) -> Result<(String, String), String> {
    let (name, data_type) = text.split_once('=').ok_or("give COLUMN=TYPE, as zip=varchar")?;
    type_of_name(data_type).map_err(|e| told(&e))?;
    Ok((name.to_owned(), data_type.to_owned()))
}

fn encoding(text: &str) -> Result<String, String> {
    encoding_of(text).map(|_| text.to_owned()).map_err(|e| told(&e))
}

fn told(error: &Error) -> String {
    let next = error.next_step.clone().unwrap_or_default();
    format!("{}: {next}", error.message)
}

impl Args {
    /// The options for a CSV file.
    fn apply(&self, form: &mut CsvForm) -> Result<(), Error> {
        if let Some(header) = self.has_header() {
            (form.has_header, form.header_is_sure) = (header, true);
        }
        if self.append {
            form.place = cellar_sql::csv::Place::Append;
        }
        form.delimiter = self.delimiter.unwrap_or(form.delimiter);
        form.types.clone_from(&self.types);
        form.null = self.null.clone().unwrap_or_default();
        form.encoding = self.encoding.as_deref().map(encoding_of).transpose()?;
        Ok(())
    }

    /// An option only for CSV files, if one was given.
    fn of_csv_alone(&self) -> Option<&'static str> {
        let given = [
            (!self.types.is_empty(), "--type"),
            (self.null.is_some(), "--null"),
            (self.encoding.is_some(), "--encoding"),
            (self.reject.is_some(), "--reject"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }

    fn has_header(&self) -> Option<bool> {
        match (self.header, self.no_header) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The directory to load into.
    ///
    /// # Errors
    /// Wrong usage.
    pub fn directory(&self) -> Result<PathBuf, Fault> {
        let (given, _) = sources(self.words.clone(), self.tpch, self.table.clone())?;
        dir::resolve(given)
    }
}

/// What to load, checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Tpch(f64),
    File { path: PathBuf, format: SourceFormat, table: String },
}

#[derive(Serialize)]
struct Row<'a> {
    table: &'a str,
    rows: u64,
    bytes: u64,
}

/// Runs `load`.
///
/// # Errors
/// Wrong arguments before anything is touched; then a numbered error, and nothing was loaded.
pub async fn run(args: Args, database: &Database, env: SharedEnv) -> Result<(), Fault> {
    let (_, mut source) = sources(args.words.clone(), args.tpch, args.table.clone())?;
    let mut rejected = None;
    match &mut source {
        Source::File { format: SourceFormat::Csv { form, rejects }, .. } => {
            args.apply(form)?;
            let path = args.reject.as_deref().map(output::path);
            *rejects = path.map(Rejects::new).transpose()?;
            rejected.clone_from(rejects);
        }
        _ => {
            if let Some(option) = args.of_csv_alone() {
                return Err(Fault::usage(format!("{option} is for CSV files")));
            }
        }
    }
    let start = env.now();
    let quiet = args.format == Format::Json;
    let quietly = quiet || output::is_remote();
    let loaded = match (args.parquet, args.append) {
        (true, _) => load_parquet(database, &source, quietly).await?,
        (_, true) => append(database, &source).await?,
        _ => load(database, &source, quietly).await?,
    };
    for line in rejected.map(|rejects| rejects.finish()).transpose()?.unwrap_or_default() {
        output::notice(&format!("Notice: {line}"));
    }
    let rows: u64 = loaded.iter().map(|l| l.rows).sum();
    let bytes: u64 = loaded.iter().map(|l| l.bytes).sum();
    if quiet {
        let rows: Vec<Row<'_>> =
            loaded.iter().map(|l| Row { table: &l.table, rows: l.rows, bytes: l.bytes }).collect();
        return told_of(output::json(&rows));
    }
    let tables = if loaded.len() == 1 { "table" } else { "tables" };
    told_of(output::text(&format!(
        "{} rows, {} {tables}, {} in {}\n",
        show_count(rows),
        loaded.len(),
        show_bytes(bytes),
        show_duration(env.now().since(start))
    )))
}

/// The load is committed even if its report fails: a user who mistook that for a failed
/// load would load the data twice.
fn told_of(report: Result<(), Fault>) -> Result<(), Fault> {
    let Err(Fault::Failed(why)) = report else { return report };
    output::notice(&format!("Notice: all is loaded; only the report of it was not written: {why}"));
    Ok(())
}

fn sources(
    words: Vec<PathBuf>,
    tpch: Option<f64>,
    table: Option<String>,
) -> Result<(Option<PathBuf>, Source), Fault> {
    let mut words = words.into_iter();
    if let Some(scale) = tpch {
        if words.len() > 1 {
            return Err(Fault::usage("with --tpch there is no FILE: cellar load DIR --tpch 1"));
        }
        if !(scale > 0.0 && scale <= 1000.0) {
            return Err(Fault::usage(format!(
                "--tpch {scale}: allowed is more than 0, up to 1000"
            )));
        }
        return Ok((words.next(), Source::Tpch(scale)));
    }
    let (dir, path) = match (words.next(), words.next()) {
        (Some(dir), Some(path)) => (Some(dir), path),
        (Some(path), None) => (None, path),
        _ => {
            let text = "what to load? cellar load DIR FILE, or cellar load DIR --tpch 1";
            return Err(Fault::usage(text));
        }
    };
    if dir.is_none() && (path.is_dir() || path.extension().is_none()) {
        let (shown, path) = (path.display(), shell::path(&path));
        return Err(Fault::usage(format!(
            "what to load into {shown}? cellar load {path} FILE, or cellar load {path} --tpch 1"
        )));
    }
    let format = SourceFormat::of(&path).map_err(|e| Fault::usage(e.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = name
        .strip_suffix(&format!(".{}", cellar_sql::path::ending(&path)))
        .unwrap_or(&name)
        .to_owned();
    // A dot separates schema and name only in a name given explicitly: file names have dots in them.
    let is_said = table.is_some();
    let table = table.map_or(stem, |t| t.to_lowercase());
    let (schema, own) = match table.split_once('.') {
        Some((schema, own)) if is_said => (schema, own),
        _ => (name::PUBLIC, &*table),
    };
    if !is_name(own) || !is_name(schema) {
        return Err(Fault::usage(format!(
            "\"{table}\" is no name for a table: letters, digits, _, $, #. Give --table NAME, or SCHEMA.NAME"
        )));
    }
    let table = name::key_of(schema, own);
    Ok((dir, Source::File { path, format, table }))
}

/// Whether a name needs no quotes.
fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_$#".contains(c))
}

fn tell(notices: &[String]) {
    for line in notices {
        output::notice(&format!("Notice: {line}"));
    }
}

fn no_group() -> Error {
    Error::new(15001, "42704", "no disk group is mounted")
}

/// The names of the tables to create, none of which may exist yet.
fn check_free<'a>(host: &dyn Host, source: &'a Source) -> Result<Vec<&'a str>, Fault> {
    let wanted: Vec<&str> = match source {
        Source::Tpch(_) => TpchTable::ALL.iter().map(|t| t.name()).collect(),
        Source::File { table, .. } => vec![table],
    };
    let columnar = |name: &str| host.columnar().is_some_and(|columnar| columnar.has(name));
    let external = host.tables();
    let known = |name: &&&str| columnar(name) || external.iter().any(|t| t.name == **name);
    match wanted.iter().find(known) {
        Some(table) => {
            Err(Error::new(955, "42P07", format!("there is already a table \"{table}\""))
                .next(
                    NextStep::from(
                        "--append adds the rows to it, --table NAME makes another; to start anew: ",
                    )
                    .cellar("sql", &statement(&format!("drop table {}", name::shown(table)))),
                )
                .into())
        }
        None => Ok(wanted),
    }
}

/// Loads into columnar tables of the first group. Everything created is removed if a part fails.
///
/// # Errors
/// A name is in use, no space, a file that is not of the stated kind.
pub async fn load(database: &Database, source: &Source, quiet: bool) -> Result<Vec<Loaded>, Fault> {
    let host = database.host();
    check_free(&*host, source)?;
    let groups = host.groups();
    let group = groups.first().ok_or_else(no_group)?;
    let columnar = host.columnar().ok_or_else(no_group)?;
    let of = |table: &str, written: Written| Loaded {
        table: name::shown(table).into_owned(),
        path: StorePath::default(),
        rows: written.rows,
        bytes: written.bytes,
    };
    let scale = match source {
        Source::Tpch(scale) => *scale,
        Source::File { path, format, table } => {
            let file = source::file(&output::path(path), format.clone(), None).await?;
            tell(&file.notices);
            let schema = table_schema(&file.schema)?;
            let (rows, how) = (Some(file.batches), (cores(), None));
            let written = columnar.create(table, group, &schema, rows, how).await?;
            return Ok(vec![of(table, written)]);
        }
    };
    let total = TpchTable::ALL.iter().map(|t| t.rows(scale)).sum();
    let bar = Arc::new(Progress::new("rows", total, quiet));
    let mut loaded: Vec<Loaded> = Vec::new();
    for table in TpchTable::ALL {
        let before: u64 = loaded.iter().map(|l| l.rows).sum();
        let told = Arc::clone(&bar);
        let tell: OnProgress = Arc::new(move |rows, _| told.set(before + rows));
        let schema = table_schema(&table.schema())?;
        let rows = source::tpch(table, scale, cores());
        let how = (cores(), Some(tell));
        match columnar.create(table.name(), group, &schema, Some(rows), how).await {
            Ok(written) => loaded.push(of(table.name(), written)),
            Err(error) => {
                for one in &loaded {
                    // The first error is reported.
                    let _ = host.drop_table(&one.table).await;
                }
                return Err(error.into());
            }
        }
    }
    bar.finish();
    Ok(loaded)
}

/// Adds the rows of a file to a columnar table.
async fn append(database: &Database, source: &Source) -> Result<Vec<Loaded>, Fault> {
    let Source::File { path, format, table } = source else {
        return Err(Fault::usage("--append takes a FILE"));
    };
    let host = database.host();
    let columnar = host.columnar().ok_or_else(no_group)?;
    let own = columnar.schema(table)?;
    let file = source::file(&output::path(path), format.clone(), Some(own)).await?;
    tell(&file.notices);
    let how = (cores(), None);
    let written = columnar.append(table, &file.schema, file.batches, how).await?;
    Ok(vec![Loaded {
        table: name::shown(table).into_owned(),
        path: StorePath::default(),
        rows: written.rows,
        bytes: written.bytes,
    }])
}

/// Loads Parquet files into the first group and creates tables of them. Everything created is removed if a
/// part fails.
async fn load_parquet(
    database: &Database,
    source: &Source,
    quiet: bool,
) -> Result<Vec<Loaded>, Fault> {
    let host = database.host();
    let wanted = check_free(&*host, source)?;
    if let Some(table) = wanted.iter().find(|table| table.contains(name::SEPARATOR)) {
        let (schema, own) = name::parts(table);
        return Err(Error::not_yet(format!("--parquet into the schema {schema}"))
            .next(format!("--table {own}, then alter table {own} set schema {schema}"))
            .into());
    }
    let groups = host.groups();
    let group = groups.first().ok_or_else(no_group)?;
    let store = host.store(group).ok_or_else(no_group)?;
    for table in &wanted {
        check_no_file(&store, group, table).await?;
    }
    let engine = database.engine().await?;
    let loaded = files(&store, source, quiet).await?;
    if let Err(error) = register(&engine, group, &loaded).await {
        for one in &loaded {
            // The first error is reported.
            let _ = engine.execute(&format!("drop table if exists {}", one.table)).await;
            let _ = store.delete(&one.path).await;
        }
        return Err(error.into());
    }
    Ok(loaded)
}

/// A statement as an argument of `sql`.
fn statement(sql: &str) -> String {
    format!("-c {}", shell::quoted(sql))
}

/// Refuses to overwrite a file: it may be all that is left of a dropped table, or belong
/// to another table.
async fn check_no_file(
    store: &Arc<dyn ObjectStore>,
    group: &str,
    table: &str,
) -> Result<(), Error> {
    let path = StorePath::from(format!("{table}.parquet"));
    match store.head(&path).await {
        Ok(_) => {
            let message = format!("there is already a file \"+{group}/{path}\"");
            let remove = format!("rm {}", shell::quoted(&format!("+{group}/{path}")));
            let create = statement(&format!(
                "create external table {table} stored as parquet location '+{group}/{path}'"
            ));
            Err(Error::new(15005, "58P02", message).next(
                NextStep::from("--table NAME; or, if nobody needs the file: ")
                    .cellar("asm", &remove)
                    .then("; or use it as it is: ")
                    .cellar("sql", &create),
            ))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(cellar_sql::failure::from_store(&error)),
    }
}

async fn files(
    store: &Arc<dyn ObjectStore>,
    source: &Source,
    quiet: bool,
) -> Result<Vec<Loaded>, Fault> {
    match source {
        Source::Tpch(scale) => {
            let total = TpchTable::ALL.iter().map(|t| t.rows(*scale)).sum();
            let bar = Arc::new(Progress::new("rows", total, quiet));
            let told = Arc::clone(&bar);
            let options = LoadOptions {
                threads: cores(),
                on_progress: Some(Arc::new(move |p| told.set(p.rows))),
            };
            let loaded =
                load::tpch(Arc::clone(store), &StorePath::default(), *scale, &options).await?;
            bar.finish();
            Ok(loaded)
        }
        Source::File { path, format, table } => {
            let options = LoadOptions { threads: cores(), on_progress: None };
            let target = StorePath::from(format!("{table}.parquet"));
            let store = Arc::clone(store);
            let one =
                load::file(&output::path(path), format.clone(), store, &target, table, &options)
                    .await?;
            Ok(vec![one])
        }
    }
}

async fn register(engine: &Engine, group: &str, loaded: &[Loaded]) -> Result<(), Error> {
    for one in loaded {
        let sql = format!(
            "create external table {} stored as parquet location '+{group}/{}'",
            one.table, one.path
        );
        engine.execute(&sql).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str], tpch: Option<f64>) -> Result<(Option<PathBuf>, Source), String> {
        let words = words.iter().map(PathBuf::from).collect();
        sources(words, tpch, None).map_err(|fault| match fault {
            Fault::Usage(message) => message.to_string(),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn a_lone_word_is_the_file_and_with_tpch_the_directory() {
        let (dir, source) = parse(&["Trips.parquet"], None).unwrap();
        assert_eq!(dir, None);
        assert!(matches!(source, Source::File { table, .. } if table == "trips"));
        assert_eq!(parse(&["d"], Some(0.1)).unwrap(), (Some("d".into()), Source::Tpch(0.1)));
        assert_eq!(parse(&["d", "a.csv"], None).unwrap().0, Some("d".into()));
        assert!(parse(&[], None).unwrap_err().contains("what to load"));
        assert!(parse(&["d"], None).unwrap_err().contains("cellar load d FILE"));
        assert!(parse(&["d", "x"], Some(1.0)).unwrap_err().contains("no FILE"));
        assert!(parse(&["d"], Some(-1.0)).unwrap_err().contains("up to 1000"));
        assert!(parse(&["a.txt"], None).unwrap_err().contains(".parquet, .csv"));
        assert!(parse(&["my file.csv"], None).unwrap_err().contains("--table NAME"));
    }
}
