//! Exchange of the names of two files: the next contents of one are written to the other, so that
//! no room beyond that of both is needed.

use async_recursion::async_recursion as boxed;

use crate::error::Error;
use crate::group::Group;
use crate::group::files::parts_of;
use crate::names::{Entry, NameOp, TreeError};
use crate::state::Op;

impl Group {
    /// Exchanges the files of two names, in one record: after a crash the exchange has happened or
    /// not, and both files are there.
    ///
    /// # Errors
    /// A name belongs to no file.
    #[boxed]
    pub async fn exchange(&self, one: &str, other: &str) -> Result<(), Error> {
        let paths = [(one, parts_of(one)?), (other, parts_of(other)?)];
        let change = self.inner.change(|core| {
            let mut found = Vec::new();
            for (path, parts) in &paths {
                let at = core.state.names.lookup(parts)?;
                let (Entry::File(alias), Some(name)) = (at.entry, parts.last()) else {
                    return Err(TreeError::IsADirectory((*path).to_owned()).into());
                };
                found.push((at.parent, name.clone(), alias));
            }
            let takes = |at: usize, from: usize| {
                let (dir, name) = (found[at].0, found[at].1.clone());
                Op::Name(NameOp::Replace { dir, name, alias: found[from].2 })
            };
            Ok(((), vec![takes(0, 1), takes(1, 0)]))
        });
        change.await
    }
}
