//! The settings compared: the four values of `filesystemio_options`, with and without `disk_asynch_io`.

use cellar_io::real::{EngineChoice, FilesystemIo};

/// One setting of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// `filesystemio_options`.
    pub options: FilesystemIo,
    /// `disk_asynch_io`.
    pub asynch: bool,
    /// `disk_io_engine`.
    pub engine: EngineChoice,
    /// The name of its arm: `setall`, or `setall-libaio`.
    pub name: &'static str,
    /// Whether it is measured a second time, for the noise.
    pub again: bool,
}

const fn setting(options: FilesystemIo, asynch: bool, name: &'static str) -> Setting {
    Setting { options, asynch, engine: EngineChoice::Auto, name, again: false }
}

const fn libaio(options: FilesystemIo, name: &'static str) -> Setting {
    Setting { engine: EngineChoice::LibAio, ..setting(options, true, name) }
}

const fn again(setting: Setting) -> Setting {
    Setting { again: true, ..setting }
}

/// All compared settings. Six of the first eight are two access paths under three names each:
/// equal runs. Settings that occur only once are measured again.
pub(super) const SETTINGS: [Setting; 12] = [
    setting(FilesystemIo::None, true, "none"),
    setting(FilesystemIo::Asynch, true, "asynch"),
    setting(FilesystemIo::DirectIo, true, "directio"),
    setting(FilesystemIo::SetAll, true, "setall"),
    setting(FilesystemIo::None, false, "none"),
    setting(FilesystemIo::Asynch, false, "asynch"),
    setting(FilesystemIo::DirectIo, false, "directio"),
    setting(FilesystemIo::SetAll, false, "setall"),
    libaio(FilesystemIo::Asynch, "asynch-libaio"),
    libaio(FilesystemIo::SetAll, "setall-libaio"),
    again(setting(FilesystemIo::Asynch, true, "asynch")),
    again(setting(FilesystemIo::SetAll, true, "setall")),
];

/// The arms of a load, in the order of the report, with the seconds of the post.
pub(super) const NAMES: [(&str, Option<f64>); 6] = [
    ("none", Some(13.80)),
    ("asynch", Some(11.75)),
    ("asynch-libaio", None),
    ("directio", Some(12.23)),
    ("setall", Some(11.64)),
    ("setall-libaio", None),
];

/// The value of `disk_asynch_io` in the columns of the report.
pub(super) const LAYOUTS: [&str; 2] = ["true", "false"];

impl Setting {
    /// The column of the report.
    pub(super) fn layout(&self) -> &'static str {
        LAYOUTS[usize::from(!self.asynch)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_an_arm() {
        assert!(SETTINGS.iter().all(|c| NAMES.iter().any(|(name, _)| *name == c.name)));
        for (i, one) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS[..i].iter().all(|other| other != one));
        }
    }
}
