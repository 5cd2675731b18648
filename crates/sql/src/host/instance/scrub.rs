//! SCRUB as calls of the instance, and in words what it sets going and found.

use cellar_diskgroup::{ScrubScope, ScrubSpec};
use cellar_instance::database::Mounted;
use cellar_instance::scrub::{disk_number, scrub_words};

use super::waiting::What;
use super::{InstanceHost, group_error, inside};
use crate::error::Error;
use crate::statement::{GroupAction, Scrub, ScrubWhat};

impl InstanceHost {
    /// Does `action` if it is about a scrub; what was done, in words.
    pub(super) async fn alter_scrub(
        &self,
        mounted: &Mounted,
        action: &GroupAction,
    ) -> Result<Option<String>, Error> {
        let group = &mounted.group;
        let told = match action {
            GroupAction::Scrub(scrub) => self.scrub(mounted, scrub).await?,
            GroupAction::StopScrub => match group.stop_scrub().await.map_err(group_error)? {
                true => "scrub stopped".to_owned(),
                false => "no scrub was under way".to_owned(),
            },
            _ => return Ok(None),
        };
        Ok(Some(format!("{}: {told}.", group.name())))
    }

    async fn scrub(&self, mounted: &Mounted, scrub: &Scrub) -> Result<String, Error> {
        let group = &mounted.group;
        let scope = match &scrub.what {
            ScrubWhat::Group => ScrubScope::Group,
            ScrubWhat::Disk(name) => ScrubScope::Disk(disk_number(group, name)?),
            ScrubWhat::File(path) => {
                let path = inside(group.name(), path)?;
                ScrubScope::File(group.open(&path).map_err(group_error)?.number())
            }
        };
        let Scrub { repair, power, force, wait, .. } = *scrub;
        group.scrub(ScrubSpec { scope, repair, power, force }).await.map_err(group_error)?;
        if !wait {
            let mb = group.scrubbing().map_or(0, |now| now.bytes_total).div_ceil(1 << 20);
            return Ok(format!("scrub of {mb} MB begun; {}", self.shows()));
        }
        let waiting = self.waiting.for_what(What::Scrub(group.clone()));
        let result = group.wait_scrubbed().await.map_err(group_error)?;
        drop(waiting);
        Ok(result.map_or("no scrub is under way".to_owned(), |result| scrub_words(group, &result)))
    }
}
