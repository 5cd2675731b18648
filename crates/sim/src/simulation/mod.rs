//! Seeded runs of everything a group does, with crashes at any I/O and one lost leg, checked against
//! a byte-level model.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::{FileType, Striping};
use cellar_diskgroup::{Copies, Error, File, FileSpec, Group, MountOptions, Redundancy};
use cellar_io::sim::Rng;
use cellar_io::{Device, DeviceExt, Discard, Durability, EnvExt, Io, IoErrorKind};

use damaged_blocks::DamagedBlock;
use ends::{everything_goes, leftovers};
use faults::Bad;
use life::{create_group, mount};
use moves::Moves;
use names::{name_op, settle_names};
use sound::{group_is_sound, read_all, read_some, verify};
use work::{drop_unnamed, flush, some_work, write_some};
use world::{Loss, Open, World};

pub use load::Load;
pub use moves::Mode;
pub use orders::{order_count, order_of};
pub use runs::{Failure, Outcome, TAIL, run_seed, try_seed};
pub use stats::{Count, FAULTS, Fault, FaultKind, Stats};

use crate::model::{FileModel, stamp};
use crate::rig::{Rig, Shape};

type Step<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
/// Path to file, by the model's id for it; `None` is a directory.
type Names = BTreeMap<String, Option<u32>>;

mod damaged_blocks;
mod ends;
mod faults;
mod life;
mod load;
mod moves;
mod names;
mod orders;
mod returns;
mod rot;
mod runs;
mod sound;
mod stats;
mod work;
mod world;
