//! Locations of files: the place that a location names, on the host or in a group, and its current files.

use std::sync::Arc;

use cellar_instance::tables::external::before_pattern;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::context::SessionState;
use futures_util::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore};

use crate::error::{Error, NextStep};
use crate::failure::from_datafusion;
use crate::path::GroupPath;
use crate::path::inside;

/// A place that files are read from.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its name for users.
    pub shown: String,
    /// The place itself, or its files by file extension.
    pub urls: Vec<ListingTableUrl>,
}

/// Characters that make a path a pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn parsed(url: &str) -> Result<ListingTableUrl, Error> {
    ListingTableUrl::parse(url).map_err(|e| from_datafusion(&e))
}

/// The URL of a file of the host, if that file exists.
fn file_url(location: &str) -> Option<String> {
    let path = std::path::absolute(location).ok().filter(|path| path.is_file())?;
    Some(url::Url::from_file_path(path).ok()?.into())
}

/// The URL of a location, which may be a pattern.
fn url_of(location: &str) -> Result<(String, ListingTableUrl), Error> {
    let Some((group, path)) = inside(location) else {
        // A file with exactly that name is meant, whatever else the name may mean.
        let exact = is_pattern(location).then(|| file_url(location)).flatten();
        return Ok((location.to_owned(), parsed(exact.as_deref().unwrap_or(location))?));
    };
    let ends = if location.ends_with('/') && !path.is_empty() { "/" } else { "" };
    let shown = format!("+{group}/{path}{ends}");
    if !is_pattern(&path) {
        return Ok((shown, parsed(location)?));
    }
    let directory = before_pattern(&path);
    let url = GroupPath { group, file: directory.to_owned() }.url();
    let pattern = &path[directory.len()..];
    let with_pattern = parsed(&url)?.with_glob(pattern);
    Ok((shown, with_pattern.map_err(|e| from_datafusion(&e))?))
}

/// The extensions of files of a type in a directory.
fn endings(file_type: &str) -> Vec<String> {
    let plain = file_type.to_ascii_lowercase();
    match plain.as_str() {
        "csv" => ["csv", "csv.gz", "csv.zst"].map(str::to_owned).to_vec(),
        "parquet" => ["parquet", "pq"].map(str::to_owned).to_vec(),
        _ => vec![plain],
    }
}

impl Place {
    /// The place that a location names, for files of a type.
    ///
    /// # Errors
    /// It is not a path, or its store fails.
    pub(crate) async fn of(
        state: &SessionState,
        location: &str,
        file_type: &str,
    ) -> Result<Place, Error> {
        let (shown, url) = url_of(location)?;
        let whole = Place { shown: shown.clone(), urls: vec![url.clone()] };
        if !url.is_collection() || url.get_glob().is_some() {
            return Ok(whole);
        }
        // A directory may contain other files; if no file has the extension, all of them are meant.
        let urls = endings(file_type).into_iter().map(|ending| {
            url.clone().with_glob(&format!("*.{ending}")).map_err(|e| from_datafusion(&e))
        });
        let of_type = Place { shown, urls: urls.collect::<Result<_, _>>()? };
        let (found, all) = (of_type.files(state).await?, whole.files(state).await?);
        Ok(if found.is_empty() && !all.is_empty() { whole } else { of_type })
    }

    /// Whether it is a directory, or a pattern.
    pub(crate) fn is_many(&self) -> bool {
        self.urls.iter().any(|url| url.is_collection() || url.get_glob().is_some())
    }

    /// The store that it is in, with its URL.
    pub(crate) fn store(
        &self,
        state: &SessionState,
    ) -> Result<(String, Arc<dyn ObjectStore>), Error> {
        let url = self.urls.first().ok_or_else(|| self.gone())?.object_store();
        let store = state.runtime_env().object_store(&url).map_err(|e| from_datafusion(&e))?;
        Ok((url.as_str().to_owned(), store))
    }

    /// The files that currently exist, by name.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn files(&self, state: &SessionState) -> Result<Vec<ObjectMeta>, Error> {
        let (_, store) = self.store(state)?;
        let mut files: Vec<ObjectMeta> = Vec::new();
        for url in &self.urls {
            let listed = url.list_all_files(state, store.as_ref(), "").await;
            let listed = listed.map_err(|e| from_datafusion(&e))?;
            files.extend(listed.try_collect::<Vec<_>>().await.map_err(|e| from_datafusion(&e))?);
        }
        // A store lists in any order.
        files.sort_by(|a, b| a.location.cmp(&b.location));
        files.dedup_by(|a, b| a.location == b.location);
        Ok(files)
    }

    /// The error for a place without files.
    pub(crate) fn gone(&self) -> Error {
        let many = if self.is_many() { "no file in" } else { "no file" };
        let text = format!("there is {many} \"{}\"", self.shown);
        match self.shown.strip_prefix('+') {
            Some(path) => {
                let group = path.split('/').next().unwrap_or_default();
                Error::new(15012, "58P01", text)
                    .next(NextStep::default().cellar("asm", &format!("ls +{group}")))
            }
            None => Error::new(27037, "58P01", text).next(
                "check the path; if the file is gone for good, so is what a table read of it",
            ),
        }
    }
}
