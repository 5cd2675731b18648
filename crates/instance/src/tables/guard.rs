//! Protection of the catalog, of segments, and of groups that hold tables against users' statements.

use super::Tables;
use super::names::{TABLES_DIR, holds, plain};
use super::under_way::Dropping;
use crate::catalog_file::{BEFORE_PATH, CATALOG_PATH, SPARE_PATH};
use crate::error::{Error, Result};
use crate::heap::HEAP_PATH;

impl Tables {
    /// Refuses to let a user overwrite, remove or rename `path` of a group if it is the system's, or a
    /// directory that holds something of the system's.
    ///
    /// # Errors
    /// 15028 with what it is and the next step.
    pub fn check_user_file(&self, group: &str, path: &str) -> Result<()> {
        let (group, path) = (group.to_uppercase(), plain(path));
        if path.is_empty() {
            return Ok(());
        }
        // Where it cannot be read any file may be what a table reads.
        self.catalog.known()?;
        // Only the first group has the catalog; one that is not mounted may be the first elsewhere.
        let other_group = self.groups.get(&group).is_ok_and(|mounted| mounted.number != 1);
        if holds(&path, CATALOG_PATH) && !other_group {
            let text =
                format!("file \"+{group}/{CATALOG_PATH}\" holds the catalog of this database");
            let error = Error::new(15028, text);
            return Err(error.hint("leave it: without it no table is known"));
        }
        if holds(&path, SPARE_PATH) && !other_group {
            let text = format!("file \"+{group}/{SPARE_PATH}\" is room for the next catalog");
            let error = Error::new(15028, text);
            return Err(error.hint("leave it: with it DROP and TRUNCATE work in a full group"));
        }
        for (own, what) in [
            (HEAP_PATH, "holds the catalog and the rows of tables"),
            (BEFORE_PATH, "is the catalog as it was before the heap had it"),
        ] {
            if holds(&path, own) && !other_group && self.has_file(&group, own) {
                let error = Error::new(15028, format!("file \"+{group}/{own}\" {what}"));
                return Err(error.hint("leave it: DROP TABLE and DELETE take rows away"));
            }
        }
        for (own, what) in [
            (cellar_storage::redo::CONTROL_PATH, "is the control file of the redo log"),
            (cellar_storage::redo::REDO_DIR, "is where the redo log is kept"),
        ] {
            // Of a log that is not there any more files may be left in a group that was not.
            if !self.redo.is_there() {
                break;
            }
            if holds(&path, own) || holds(own, &path) {
                let error = Error::new(15028, format!("\"+{group}/{own}\" {what}"));
                return Err(error.hint(
                    "ALTER DATABASE DROP LOGFILE takes files of the log away; put yours elsewhere",
                ));
            }
        }
        if !holds(&path, TABLES_DIR) && !holds(TABLES_DIR, &path) {
            return Ok(());
        }
        let catalog = self.catalog.current();
        Err(match catalog.owner(&group, &path) {
            Some(table) => {
                let text =
                    format!("file \"+{group}/{path}\" holds rows of table \"{}\"", table.name);
                Error::new(15028, text).hint("DROP TABLE or TRUNCATE TABLE removes it")
            }
            None => {
                let text = format!("\"+{group}/{TABLES_DIR}\" is where columnar tables are kept");
                Error::new(15028, text)
                    .hint("DROP TABLE removes a table's files; put yours in another directory")
            }
        })
    }

    fn has_file(&self, group: &str, path: &str) -> bool {
        self.groups.get(group).is_ok_and(|mounted| mounted.group.open(path).is_ok())
    }

    /// Refuses to drop a group that holds columnar tables. Until the returned guard is dropped, no table
    /// gets rows there.
    ///
    /// # Errors
    /// 15039 over 15028 with the tables and the next step.
    pub(crate) fn drop_without_tables(&self, group: &str) -> Result<Dropping> {
        let refused = |error: Error| error.under(15039, "diskgroup not dropped");
        let dropping = self.under_way.drop_group(group).map_err(refused)?;
        // Asked only now: a load has reached the catalog, or it is refused from here on.
        let catalog = self.catalog.current();
        let here = catalog.tables.iter().filter(|table| table.is_in(group));
        let tables: Vec<&str> = here.map(|table| table.name.as_str()).collect();
        if tables.is_empty() {
            return Ok(dropping);
        }
        let list = tables.join(", ");
        let error = Error::new(15028, format!("tables are kept in \"{group}\": {list}"));
        Err(refused(
            error.hint(format!("drop them first, if nobody needs their rows: drop table {list}")),
        ))
    }
}
