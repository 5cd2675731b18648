//! The inspection of a store's file, for people and for tools: the whole of it, or one page. It reads only, and
//! takes any bytes: what is damaged is shown as damaged, with the reason, and what can be read of it.

mod cells;
mod map;
mod page;
mod ring;
mod source;
mod summary;
mod text;
mod tree;

use async_recursion::async_recursion as boxed;
use cellar_io::Device;

use source::Source;
pub use tree::Inspection;

/// Describes the store in a file: both copies of the header, the doublewrite ring, and tables and indexes with
/// their extents and pages, as the extent map and the space pages have them.
///
/// The store may be open meanwhile, or may have been when the power went: then what is on the disk is older
/// than what redo makes of it, and an object may lack what was written last.
#[boxed]
pub async fn inspect(device: &dyn Device) -> Inspection {
    summary::describe(&Source::open(device).await).await
}

/// Describes one page of the file of a store, whatever it is: a copy of the header, a page of the ring, or one
/// with cells. Of rows it knows no columns: it shows their bytes.
#[boxed]
pub async fn inspect_page(device: &dyn Device, page: u32) -> Inspection {
    page::describe(&Source::open(device).await, page).await
}
