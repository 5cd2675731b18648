//! Hot spares as `status` shows them: which fit, which do not and why, and what one of them is about to
//! do.

use std::time::Duration;

use cellar_storage::Mounted;
use cellar_storage::groups::Spare;
use serde::Serialize;

use cellar_storage::size::show_time;
use cellar_storage::words::some;

use super::GroupHealth;

/// A hot spare that will not do for every disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnfitSpare {
    /// The disk, or a pattern that finds none.
    pub path: String,
    /// Disks whose places it could take although.
    pub fits: Vec<String>,
    /// Why not the others'.
    pub why: String,
}

/// Notes which spares wait, and for what.
pub fn note(status: &mut GroupHealth, mounted: &Mounted, spares: &[Spare], delay: Duration) {
    let path = |spare: &Spare| spare.path.display().to_string();
    status.hot_spares = spares.iter().filter(|s| !s.fits.is_empty()).map(path).collect();
    let unfit = |spare: &Spare| {
        let why = spare.why_not.clone()?;
        Some(UnfitSpare { path: path(spare), fits: spare.fits.clone(), why })
    };
    status.unfit_spares = spares.iter().filter_map(unfit).collect();
    let away = mounted.group.away_disks().into_iter().filter(|d| !d.by_command && !d.coming);
    let Some(disk) = away.max_by_key(|d| d.since) else { return };
    let Some(spare) = spares.iter().find(|s| s.fits.contains(&disk.name)).map(path) else { return };
    let left = delay.saturating_sub(disk.since);
    let words = match left.is_zero() {
        true => format!("hot spare {spare} takes the place of {}", disk.name),
        false => {
            format!("hot spare {spare} takes the place of {} in {}", disk.name, show_time(left))
        }
    };
    status.work = Some(match status.work.take() {
        Some(work) => format!("{words}; {work}"),
        None => words,
    });
}

/// A line for those that will do, and one for each that will not.
pub fn words(status: &GroupHealth) -> Vec<String> {
    let is_unfit = |path: &&String| status.unfit_spares.iter().any(|unfit| unfit.path == **path);
    let fit: Vec<String> =
        status.hot_spares.iter().filter(|path| !is_unfit(path)).cloned().collect();
    let fit = (!fit.is_empty()).then(|| format!("{} may take the place of a disk", some(&fit)));
    let unfit = status.unfit_spares.iter().map(|unfit| match unfit.fits.is_empty() {
        true => format!("{} will not do: {}", unfit.path, unfit.why),
        false => format!("{} will do for {} alone: {}", unfit.path, some(&unfit.fits), unfit.why),
    });
    fit.into_iter().chain(unfit).collect()
}
