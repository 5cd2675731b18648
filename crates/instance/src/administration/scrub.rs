//! SCRUB as calls of a group, and messages about what it starts and finds.

use cellar_diskgroup::{ScrubScope, ScrubSpec};
use cellar_storage::Mounted;
use cellar_storage::request::{ScrubRequest, ScrubTarget};

use super::Administrator;
use super::files::inside;
use super::waiting::What;
use crate::error::Result;
use crate::scrub::{disk_number, scrub_words};

/// `SCRUB STOP`.
pub(super) async fn stop_scrub(mounted: &Mounted) -> Result<String> {
    Ok(match mounted.group.stop_scrub().await? {
        true => "scrub stopped".to_owned(),
        false => "no scrub was under way".to_owned(),
    })
}

impl Administrator {
    pub(super) async fn scrub(&self, mounted: &Mounted, request: &ScrubRequest) -> Result<String> {
        let group = &mounted.group;
        let scope = match &request.target {
            ScrubTarget::Group => ScrubScope::Group,
            ScrubTarget::Disk(name) => ScrubScope::Disk(disk_number(group, name)?),
            ScrubTarget::File(path) => {
                let path = inside(group.name(), path)?;
                ScrubScope::File(group.open(&path)?.number())
            }
        };
        let ScrubRequest { repair, power, force, wait, .. } = *request;
        group.scrub(ScrubSpec { scope, repair, power, force }).await?;
        if !wait {
            let mb = group.scrubbing().map_or(0, |now| now.bytes_total).div_ceil(1 << 20);
            return Ok(format!("scrub of {mb} MB begun; {}", self.shows()));
        }
        let waiting = self.waiting.for_what(What::Scrub(group.clone()));
        let result = group.wait_scrubbed().await?;
        drop(waiting);
        Ok(result.map_or("no scrub is under way".to_owned(), |result| scrub_words(group, &result)))
    }
}
