//! One write to one medium in flight, retried where that may help.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Device, Durability, EnvExt, Io, IoError, IoErrorKind, SharedEnv};

/// Pauses before the same bytes are written again: less than 100 ms together.
const RETRIES: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(9), Duration::from_millis(40)];

/// What is to be written to a medium: units that follow each other in one group.
pub(crate) struct Write {
    /// Tells it from all others.
    pub id: u64,
    pub medium: usize,
    /// Numbers of its units.
    pub units: Range<u64>,
    pub device: Arc<dyn Device>,
    pub offset: u64,
    pub slices: Vec<Bytes>,
    /// Nothing else is in flight, and nobody is expected: see [`Device::write_alone`].
    pub alone: bool,
}

/// How a write ended.
pub(crate) struct Done {
    pub id: u64,
    pub medium: usize,
    pub units: Range<u64>,
    pub retries: u32,
    pub result: Result<(), IoError>,
}

/// A write on its way. Nothing happens unless somebody polls it.
pub(crate) struct Op(Pin<Box<dyn Future<Output = Done> + Send>>);

impl Op {
    pub fn new(write: Write, env: &SharedEnv) -> Op {
        let env = Arc::clone(env);
        Op(Box::pin(async move {
            let Write { id, medium, units, device, offset, slices, alone } = write;
            let (result, retries) = try_write(&*device, &env, offset, slices, alone).await;
            Done { id, medium, units, retries, result }
        }))
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Done> {
        self.0.as_mut().poll(cx)
    }
}

/// Writes durably, up to four times.
pub(crate) async fn write_durably(
    device: &dyn Device,
    env: &SharedEnv,
    offset: u64,
    slices: Vec<Bytes>,
) -> (Result<(), IoError>, u32) {
    try_write(device, env, offset, slices, false).await
}

/// A retry is right: the error is about this very write, and the bytes are still ours.
async fn try_write(
    device: &dyn Device,
    env: &SharedEnv,
    offset: u64,
    slices: Vec<Bytes>,
    alone: bool,
) -> (Result<(), IoError>, u32) {
    let mut retries = 0;
    loop {
        let pause = RETRIES.get(retries as usize);
        let data = slices.clone();
        let written = match alone {
            true => device.write_alone(Io::COMMIT, offset, data).await,
            false => device.write(Io::COMMIT, offset, data, Durability::Durable).await,
        };
        match (written, pause) {
            (Err(error), Some(pause)) if may_pass(&error) => env.sleep(*pause).await,
            (result, _) => return (result, retries),
        }
        retries += 1;
    }
}

/// Whether the same request may succeed later.
pub(crate) fn may_pass(error: &IoError) -> bool {
    matches!(error.kind, IoErrorKind::Media | IoErrorKind::Timeout { .. } | IoErrorKind::Os(_))
}
