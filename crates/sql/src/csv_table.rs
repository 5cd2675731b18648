//! Looks through the CSV files of an external table before there is one.

use std::collections::BTreeSet;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::Value;
use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;

use crate::csv::{CsvCheck, CsvForm};
use crate::error::Error;
use crate::failure::{from_datafusion, from_store};

/// How the statement says its CSV is written; `None` if it is no CSV, or one that cannot be read
/// here byte for byte.
fn form_of(create: &CreateExternalTable) -> Option<CsvForm> {
    if !create.file_type.eq_ignore_ascii_case("csv") {
        return None;
    }
    let mut form = CsvForm::new(b',');
    for (name, value) in &create.options {
        let text = match value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => text.clone(),
            Value::Boolean(flag) => flag.to_string(),
            _ => return None,
        };
        let byte = || text.as_bytes().first().copied().filter(|_| text.len() == 1);
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("format.").unwrap_or(&name) {
            "delimiter" => form.delimiter = byte()?,
            "quote" => form.quote = byte()?,
            "escape" => form.escape = Some(byte()?),
            "has_header" => {
                form.has_header = text.eq_ignore_ascii_case("true");
                form.header_is_sure = true;
            }
            "double_quote" | "comment" | "terminator" | "compression" => return None,
            _ => {}
        }
    }
    // Where the statement names the columns, the names in the file do not count.
    form.named = !create.columns.is_empty();
    form.way_out = "options ('format.has_header' 'false') takes line 1 as a row, 'true' as names";
    Some(form)
}

/// Reads every CSV file of the table once. What comes back is for the user to know.
///
/// # Errors
/// 29913 with file, line and column of what a query would take in silence.
pub(crate) async fn check(
    context: &SessionContext,
    create: &CreateExternalTable,
) -> Result<Vec<String>, Error> {
    let Some(form) = form_of(create) else { return Ok(Vec::new()) };
    let mut padded = BTreeSet::new();
    let mut first: Option<(Vec<String>, String)> = None;
    for location in &create.locations {
        let url = ListingTableUrl::parse(location).map_err(|e| from_datafusion(&e))?;
        let store = context.runtime_env().object_store(&url).map_err(|e| from_datafusion(&e))?;
        let ending = if url.is_collection() { ".csv" } else { "" };
        let state = context.state();
        let listed = url.list_all_files(&state, store.as_ref(), ending).await;
        let mut files: Vec<_> = match listed {
            Ok(files) => files.try_collect().await.map_err(|e| from_datafusion(&e))?,
            Err(e) => return Err(from_datafusion(&e)),
        };
        // A store lists in any order; the first file should not change from one run to the next.
        files.sort_by(|a: &object_store::ObjectMeta, b| a.location.cmp(&b.location));
        for file in files {
            let mut check = CsvCheck::new(form);
            let got = store.get(&file.location).await.map_err(|e| from_store(&e))?;
            let mut bytes = got.into_stream();
            while let Some(piece) = bytes.try_next().await.map_err(|e| from_store(&e))? {
                check.feed(&piece);
            }
            let shown = match url.scheme() {
                "file" => format!("/{}", file.location),
                _ => location_of(&url, &file.location),
            };
            let seen = check.finish().map_err(|e| {
                Error::new(29913, "22P04", format!("\"{shown}\" cannot be read")).caused_by(e)
            })?;
            if first.as_ref().is_some_and(|(names, _)| *names != seen.names) {
                let (names, of) = first.unwrap_or_default();
                return Err(other_columns(&shown, &seen.names, &of, &names));
            }
            padded.extend(seen.padded.iter().filter_map(|at| seen.names.get(*at).cloned()));
            first.get_or_insert((seen.names, shown));
        }
    }
    let notice = |name: String| {
        format!(
            "column {name} holds numbers with zeros in front, as in 007; where it is read as a \
             number they are lost. To keep them: create external table t ({name} varchar, ...)"
        )
    };
    Ok(padded.into_iter().map(notice).collect())
}

/// Values are taken by their place in a line: with other columns they would get wrong names.
fn other_columns(file: &str, names: &[String], first: &str, of_first: &[String]) -> Error {
    let text = format!(
        "line 1: the columns of \"{file}\" are {}, those of \"{first}\" are {}",
        names.join(","),
        of_first.join(",")
    );
    Error::new(29913, "22P04", text)
        .next("give all files of a table the same columns in the same order, or load each alone")
}

fn location_of(url: &ListingTableUrl, file: &object_store::path::Path) -> String {
    let store = url.object_store();
    let host = store.as_str().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("+{}/{file}", crate::path::group_of_host(host))
}
