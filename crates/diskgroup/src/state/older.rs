//! Files for which FORCE used older images of disks: later writes to them may be lost, and nothing on
//! the disks shows it. Kept as an attribute of the group that nobody can set, until each of them is
//! deleted: `at=SECONDS more=N file=NUMBER.INCARNATION ...`.

use super::{FileState, GroupState, Op};

/// The attribute.
const NAME: &str = "_taken_older";
/// Files that are kept by number; of those beyond only how many.
const FILES_MAX: usize = 500;
/// Files that a message names.
const FILES_NAMED: usize = 3;

/// Files of which FORCE had only what an older image of a disk holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOlder {
    /// When FORCE did so last, seconds since 1970.
    pub at: u64,
    /// By number and incarnation.
    files: Vec<(u32, u32)>,
    /// How many more there were than are kept by number.
    pub more: u64,
}

impl TakenOlder {
    fn parse(text: &str) -> TakenOlder {
        let mut out = TakenOlder::default();
        // What a later version says otherwise is left out.
        for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "at" => out.at = value.parse().unwrap_or_default(),
                "more" => out.more = value.parse().unwrap_or_default(),
                "file" => {
                    let file = value.split_once('.');
                    let file =
                        file.and_then(|(no, inc)| Some((no.parse().ok()?, inc.parse().ok()?)));
                    out.files.extend(file);
                }
                _ => {}
            }
        }
        out
    }

    fn text(&self) -> String {
        let files = self.files.iter().map(|(no, inc)| format!(" file={no}.{inc}"));
        format!("at={} more={}{}", self.at, self.more, files.collect::<String>())
    }
}

impl GroupState {
    /// The files that were taken from older images and are still there.
    pub fn taken_older(&self) -> (TakenOlder, Vec<&FileState>) {
        let kept = self.attributes.get(NAME).map(|text| TakenOlder::parse(text));
        let kept = kept.unwrap_or_default();
        let is_there = |(no, incarnation): &(u32, u32)| {
            self.files.get(no).filter(|file| file.incarnation == *incarnation && !file.temporary)
        };
        let files = kept.files.iter().filter_map(is_there).collect();
        (kept, files)
    }

    /// The note, made at a FORCE, that parts of these files are on older images alone; nothing if
    /// there is no such file.
    pub(crate) fn note_older(&self, only_older: &[&FileState], at: u64) -> Option<Op> {
        if only_older.is_empty() {
            return None;
        }
        let (kept, before) = self.taken_older();
        let mut files: Vec<(u32, u32)> = before
            .into_iter()
            .chain(only_older.iter().copied())
            .map(|f| (f.number, f.incarnation))
            .collect();
        files.sort_unstable();
        files.dedup();
        let more = kept.more + files.len().saturating_sub(FILES_MAX) as u64;
        files.truncate(FILES_MAX);
        let value = TakenOlder { at, files, more }.text();
        Some(Op::Attribute { name: NAME.to_owned(), value })
    }

    /// The first of some files and how many there are, with the verb: file +DATA/a has.
    pub(crate) fn named_files(&self, files: &[&FileState]) -> String {
        let path = |file: &&FileState| format!("+{}/{}", self.header.name, self.name_of(file));
        let paths = files.iter().take(FILES_NAMED).map(path).collect::<Vec<_>>().join(", ");
        match files.len() {
            1 => format!("file {paths} has"),
            many if many <= FILES_NAMED => format!("{many} files ({paths}) have"),
            many => format!("{many} files ({paths} and {} more) have", many - FILES_NAMED),
        }
    }

    /// Files of which some extent has no copy on the disks that `counts` names: of an external group
    /// all of them, else those that are mirrored and no medium of a log.
    pub(crate) fn without_copy(&self, counts: &dyn Fn(u16) -> bool) -> Vec<&FileState> {
        let external = self.header.redundancy == crate::on_disk::label::Redundancy::External;
        let has_none = |f: &&FileState| {
            let mut extents = f.legs.chunks(f.attributes.copies.into());
            (external || f.attributes.copies > 1)
                && !f.attributes.is_medium_of_a_log()
                && extents.any(|legs| !legs.iter().any(|leg| counts(leg.disk)))
        };
        self.files.values().filter(has_none).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_back_and_nonsense_is_left_out() {
        let noted = TakenOlder { at: 1_790_000_000, files: vec![(256, 1), (300, 9)], more: 7 };
        assert_eq!(TakenOlder::parse(&noted.text()), noted);
        let odd = "at=x file=1 file=a.b moon=3 file=5.6";
        assert_eq!(TakenOlder::parse(odd).files, [(5, 6)]);
    }
}
