//! Pages in memory. A page is never changed where readers see it: the lane makes a new image and puts it in
//! the place of the old one, so that nobody waits for anybody, and older images are what snapshots read.

mod cache;
mod frame;
mod image;
mod older;

pub(crate) use cache::Frames;
pub(crate) use frame::{Frame, Needed};
pub(crate) use image::{Image, raw_mut};
