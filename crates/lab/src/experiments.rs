//! The list of all experiments.

use crate::experiment::Experiment;

/// Every experiment.
pub const ALL: &[&dyn Experiment] = &[
    &crate::multi_disk::MultiDisk,
    &crate::au_size::AuSize,
    &crate::smart_scan::SmartScan,
    &crate::redo_media::RedoMedia,
    &crate::redo_block_size::RedoBlockSize,
    #[cfg(feature = "real")]
    &crate::io_modes::IoModes,
];

/// The experiment with this name.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter().copied().find(|e| e.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_are_told_apart() {
        for (i, one) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name() != one.name()));
            for (j, option) in one.options().iter().enumerate() {
                assert!(one.options()[..j].iter().all(|o| o.name != option.name));
                assert!(!["dir", "disks", "erase", "like", "json", "html"].contains(&option.name));
            }
        }
        assert!(find("nosuch").is_none());
    }
}
