//! Detection of host files that change while a query reads them: others may write to them, and a mixture
//! of two versions is neither of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::csv::table::shown_of;
use crate::error::Error;

/// Files that a plan reads, with their state when it was made.
#[derive(Default)]
pub(crate) struct Seen {
    files: BTreeMap<Path, ObjectMeta>,
    store: Option<Arc<dyn ObjectStore>>,
}

impl Seen {
    /// The files of the host that a plan reads. Those of a group do not change for a query that has
    /// begun to read them.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>, runtime: &RuntimeEnv) -> Seen {
        let mut seen = Seen::default();
        let mut waiting = vec![Arc::clone(plan)];
        while let Some(plan) = waiting.pop() {
            waiting.extend(plan.children().into_iter().cloned());
            let Some(source) = plan.downcast_ref::<DataSourceExec>() else { continue };
            let config = source.data_source().downcast_ref::<FileScanConfig>();
            let Some(config) = config else { continue };
            if !config.object_store_url.as_str().starts_with("file://") {
                continue;
            }
            seen.store = seen.store.or_else(|| runtime.object_store(&config.object_store_url).ok());
            for file in config.file_groups.iter().flat_map(|group| group.iter()) {
                seen.files.insert(file.object_meta.location.clone(), file.object_meta.clone());
            }
        }
        seen
    }

    /// Checks them again.
    ///
    /// # Errors
    /// 29913 for a file that has changed.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let Some(store) = &self.store else { return Ok(()) };
        for (location, was) in &self.files {
            let is_same = store
                .head(location)
                .await
                .is_ok_and(|now| (now.size, now.last_modified) == (was.size, was.last_modified));
            if !is_same {
                return Err(changed(&shown_of("file:///", location)));
            }
        }
        Ok(())
    }
}

/// The error for a file that has changed since it was opened.
pub(crate) fn changed(path: &str) -> Error {
    let text =
        format!("\"{path}\" was changed while it was read: what was read of it counts for nothing");
    Error::new(29913, "55006", text).next("run it again when nobody writes to the file")
}
