//! Removing segments that no table names: what a crash left between a segment and the catalog, and
//! what could not be removed when its table was dropped.

use cellar_diskgroup::Group;
use cellar_storage::Mounted;

use super::names::{TABLES_DIR, is_segment_of};
use super::{Tables, remove_all};

impl Tables {
    /// Removes the segments in `groups` that this database made and no table names. Does nothing if the
    /// catalog is missing or cannot be read: then it is not known what is named. What cannot be removed
    /// now is tried again when the group is next mounted.
    pub(crate) async fn sweep(&self, groups: &[Mounted]) {
        let Some(mark) = self.mark() else { return };
        let listed: Vec<(Group, String)> =
            groups.iter().flat_map(|mounted| segments_in(&mounted.group, mark)).collect();
        if listed.is_empty() {
            return;
        }
        // In this order: a file listed above is under way until the catalogs read below name it.
        let under_way = self.under_way.files();
        let Ok(Some(stored)) = self.catalog.stored().await else { return };
        // A change that failed may have got as far as the disk: what either names stays.
        let current = self.catalog.current();
        let orphans = listed.into_iter().filter(|(group, path)| {
            let named = [&stored, &*current].iter().any(|c| c.owner(group.name(), path).is_some());
            !named && !under_way.contains(&(group.name().to_owned(), path.clone()))
        });
        self.under_way.count_swept(remove_all(orphans.collect()).await);
    }

    /// How many segments that no table named were removed since the database was opened.
    pub fn swept(&self) -> usize {
        self.under_way.swept()
    }
}

fn segments_in(group: &Group, mark: u32) -> Vec<(Group, String)> {
    // No directory: no columnar table was ever there.
    let listed = group.list_dir(TABLES_DIR).unwrap_or_default();
    let ours = listed.into_iter().filter(|l| l.file.is_some() && is_segment_of(&l.path, mark));
    ours.map(|l| (group.clone(), l.path)).collect()
}
