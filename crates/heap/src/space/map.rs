//! The pages of the extent map, as they are made.

use cellar_io::{Buffer, Device, Durability, Io};
use cellar_page::{Kind, PAGE_BYTES, PageMut, seal};

use crate::error::Error;
use crate::frames::raw_mut;
use crate::geometry::{EXTENTS_PER_MAP, Geometry};

/// The extents whose first pages are pages of the map.
pub(crate) fn with_maps(geometry: Geometry, extents: u32) -> impl Iterator<Item = u32> {
    (geometry.system_extents()..extents).step_by(EXTENTS_PER_MAP as usize)
}

/// Writes empty pages of the map for the extents from `known` to `extents`, durably: what is there is
/// nobody's.
pub(crate) async fn make(
    device: &dyn Device,
    store: u64,
    geometry: Geometry,
    known: u32,
    extents: u32,
) -> Result<(), Error> {
    for extent in with_maps(geometry, extents).filter(|extent| *extent >= known) {
        let page = geometry.first_page(extent);
        let mut bytes = Buffer::zeroed(PAGE_BYTES);
        PageMut::format(raw_mut(&mut bytes), store, page, Kind::ExtentMap, 0);
        seal(raw_mut(&mut bytes));
        let offset = u64::from(page) * PAGE_BYTES as u64;
        device.write(Io::FOREGROUND, offset, vec![bytes.freeze()], Durability::Cached).await?;
    }
    device.flush(Io::FOREGROUND).await?;
    Ok(())
}
