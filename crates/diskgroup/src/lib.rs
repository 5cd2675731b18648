//! Named, striped, mirrored files out of many devices; such a file is again a device.

pub mod codec;
pub mod names;
pub mod space;
