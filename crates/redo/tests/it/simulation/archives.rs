//! The check of the archives of a life against the model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use cellar_redo::on_disk::archive::ArchiveHeader;
use cellar_redo::{ArchiveReader, Error, Lsn, archive_name};

use super::{Life, body_of};
use crate::support::DATABASE;

impl Life {
    /// Every archive is whole, and each is there whose group was not given up; what was acknowledged
    /// is in them, in order, and nothing else.
    pub(super) async fn check_archives(&self) {
        let last = self.rig.control_now().archived;
        let published = self.rig.archives.published.lock().unwrap().clone();
        let given_up = self.model.lock().unwrap().given_up.clone();
        let is_there = |s: &u64| !given_up.contains(s) || published.contains_key(&archive_name(*s));
        let expected: Vec<u64> = (1..=last).filter(is_there).collect();
        let names: Vec<_> = expected.iter().copied().map(archive_name).collect();
        assert!(published.keys().take(names.len()).eq(&names), "{:?}", published.keys());
        assert!(published.len() <= names.len() + 1, "archived and not said so: {published:?}");
        let header = |s: u64| ArchiveHeader::decode(&published[&archive_name(s)]).expect("whole");
        let mut found = BTreeMap::new();
        let mut whole = Vec::new();
        for run in expected.chunk_by(|a, b| a + 1 == *b) {
            let (from, to) = (run[0], run[run.len() - 1]);
            self.read_archives(from..=to, &mut found).await;
            whole.push((header(from).first.lsn(), header(to).end.lsn()));
        }
        if let Some(gap) = (1..=last).find(|s| !expected.contains(s)) {
            let store = self.rig.archives.clone();
            let mut reader = ArchiveReader::new(store, DATABASE, 1..=last, Lsn(0));
            let error = loop {
                match reader.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("nobody was told of the gap at {gap}"),
                    Err(error) => break error,
                }
            };
            let is_it =
                matches!(&error, Error::ArchiveMissing { sequence, .. } if *sequence == gap);
            assert!(is_it, "{error} at the gap {gap}");
        }
        let ids: BTreeSet<_> = found.values().collect();
        assert_eq!(ids.len(), found.len(), "a record came twice");
        for (lsn, (id, behind)) in &self.model.lock().unwrap().history {
            if whole.iter().any(|(first, end)| first <= lsn && behind <= end) {
                assert_eq!(found.get(lsn), Some(id), "acknowledged, and not archived");
            }
        }
    }

    /// The records of archives that follow each other.
    async fn read_archives(&self, run: RangeInclusive<u64>, found: &mut BTreeMap<Lsn, u64>) {
        let store = self.rig.archives.clone();
        let mut reader = ArchiveReader::new(store, DATABASE, run, Lsn(0));
        while let Some(record) = reader.next().await.expect("an archive is whole") {
            let id = u64::from_le_bytes(record.body[..8].try_into().expect("8 bytes"));
            assert_eq!(record.body, body_of(id, self.seed), "record {id} was changed");
            assert_eq!(record.kind, id as u8);
            let lost = self.model.lock().unwrap().lost.contains(&id);
            assert!(!lost, "record {id} is archived and was not recovered");
            assert!(found.last_key_value().is_none_or(|(lsn, _)| *lsn < record.lsn));
            assert!(found.insert(record.lsn, id).is_none());
        }
    }
}
