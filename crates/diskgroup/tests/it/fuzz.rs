//! Bytes that nobody wrote: every decoder gives a value or an error, and a group on damaged disks
//! gives the right data or refuses with a number and a next step.

use bytes::Bytes;
use cellar_diskgroup::codec::{Reader, Writer};
use cellar_diskgroup::names::{NameOp, Tree};
use cellar_diskgroup::on_disk::checksum::ChecksumBlock;
use cellar_diskgroup::on_disk::dirty::DirtyBlock;
use cellar_diskgroup::on_disk::label::Label;
use cellar_diskgroup::on_disk::layout::{BLOCK, LOG_BLOCKS};
use cellar_diskgroup::on_disk::superblock::Superblock;
use cellar_diskgroup::on_disk::{checkpoint, record};
use cellar_diskgroup::state::{FileType, GroupState, Op};
use cellar_diskgroup::{FileSpec, MountOptions, inspect};
use cellar_io::{Device, DeviceExt, Durability, Io};
use proptest::prelude::*;

use crate::golden::{
    DISK, GROUP, checksum_block, dirty_block, label, ops, payload_of, position, state, superblock,
};
use cellar_sim::rig::{Rig, Shape};

/// Puts the right CRC-32C at 4, so that the fields behind it are looked at.
fn reseal(bytes: &mut [u8]) {
    bytes[4..8].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Some bytes of some places changed.
fn mutated(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let value = prop_oneof![Just(0), Just(1), Just(0x7f), Just(0xff), any::<u8>()];
    proptest::collection::vec((any::<prop::sample::Index>(), value), 1..12)
}

/// Bytes for a block: noise, or an example with changes near its head, sealed or not.
fn block_from(examples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), BLOCK);
    let changed = (prop::sample::select(examples), changes(), any::<bool>(), 8..=BLOCK);
    let changed = changed.prop_map(|(example, changes, sealed, reach)| {
        let mut bytes = mutated(example[..reach].to_vec(), &changes);
        bytes.extend_from_slice(&example[reach..]);
        if sealed {
            bytes[..4].copy_from_slice(&example[..4]);
            reseal(&mut bytes);
        }
        bytes
    });
    prop_oneof![1 => noise, 6 => changed]
}

fn blocks() -> impl Strategy<Value = Vec<u8>> {
    block_from(vec![
        label().encode().0.to_vec(),
        superblock().encode().0.to_vec(),
        dirty_block().encode(GROUP).0.to_vec(),
        checksum_block().encode(DISK, 42).0.to_vec(),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn blocks_decode_or_are_damaged(block in blocks()) {
        if let Ok(label) = Label::decode(&block) {
            prop_assert!((1 << 20..=64 << 20).contains(&label.au_size));
        }
        let _ = Superblock::decode(&block);
        if let Ok(dirty) = DirtyBlock::decode(&block, GROUP, 3) {
            prop_assert!(dirty.entries.len() <= 252);
        }
        let _ = ChecksumBlock::decode(&block, DISK, 42);
    }

    #[test]
    fn operations_decode_or_are_damaged(changes in changes(), cut in any::<prop::sample::Index>()) {
        let payload = mutated(payload_of(&ops()), &changes);
        let cut = cut.index(payload.len());
        for payload in [&payload[..], &payload[..cut], &payload[cut..]] {
            let mut state = state();
            for op in Op::get_all(payload).unwrap_or_default() {
                // One that does not fit is refused; one that does may be anything.
                let _ = state.apply(&op);
            }
            let _ = NameOp::decode(&mut Reader::new(payload));
        }
    }

    #[test]
    fn states_decode_or_are_damaged(changes in changes(), cut in any::<prop::sample::Index>()) {
        let content = mutated(state().encode(), &changes);
        let cut = cut.index(content.len());
        for content in [&content[..], &content[..cut]] {
            if let Ok(state) = GroupState::decode(content) {
                prop_assert!(state.map_bytes() < 1 << 20, "{} bytes", state.map_bytes());
            }
        }
        let mut w = Writer::new();
        state().names.encode(&mut w);
        let tree = mutated(w.into_bytes(), &changes);
        let _ = Tree::decode(&mut Reader::new(&tree));
    }

    #[test]
    fn noise_is_no_state_and_no_tree(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = GroupState::decode(&bytes);
        let _ = Tree::decode(&mut Reader::new(&bytes));
        let _ = Op::get_all(&bytes);
        let _ = NameOp::decode(&mut Reader::new(&bytes));
    }

    #[test]
    fn checkpoints_decode_or_are_damaged(
        changes in changes(), sealed in any::<bool>(), content_bytes in any::<u64>(),
    ) {
        let content = state().encode();
        let whole = checkpoint::encode(GROUP, 9, &content);
        let mut bytes = whole.bytes[..128].to_vec();
        bytes = mutated(bytes, &changes);
        bytes.extend_from_slice(&whole.bytes[128..]);
        if sealed {
            reseal(&mut bytes);
        }
        let length = content.len() as u64;
        let same = checkpoint::decode(GROUP, 9, whole.chunks_crc, length, &bytes);
        prop_assert!(same.is_err() || same.is_ok_and(|c| c == content));
        for crc in [0, whole.chunks_crc] {
            let _ = checkpoint::decode(GROUP, 9, crc, content_bytes, &bytes);
            let _ = checkpoint::decode(GROUP, 9, crc, u64::MAX, &bytes);
            let _ = checkpoint::decode(GROUP, 9, crc, content_bytes % 70_000, &bytes);
        }
    }
}

proptest! {
    // Each case is a ring of 4 MiB.
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_decode_or_are_damaged(changes in changes(), sealed in any::<bool>(), last in 0..9u64) {
        let mut at = position();
        at.lsn = LOG_BLOCKS * 5 - 1 - last;
        let payload = payload_of(&ops());
        for filler in [false, true] {
            let (bytes, _) = match filler {
                true => record::encode_filler(GROUP, at, 1),
                false => record::encode(GROUP, at, 8, 1, &payload),
            };
            let mut bytes = [mutated(bytes[..96].to_vec(), &changes), bytes[96..].to_vec()].concat();
            if sealed {
                reseal(&mut bytes);
            }
            let mut ring = vec![0; LOG_BLOCKS as usize * BLOCK];
            let start = (at.lsn % LOG_BLOCKS) as usize * BLOCK;
            ring[start..start + bytes.len()].copy_from_slice(&bytes);
            if let Ok((header, payload)) = record::decode(&ring, GROUP, at) {
                prop_assert!(header.next().lsn > at.lsn);
                let _ = Op::get_all(payload);
            }
        }
    }
}

/// Where structures stand on a disk of 40 MiB with 1 MiB AUs, by weight of what is hurt.
fn place() -> impl Strategy<Value = (u64, u64)> {
    let size = 40u64 << 20;
    let at = prop_oneof![
        2 => prop::sample::select(vec![0u64, 64 << 10, size - (128 << 10), size - (64 << 10)]),
        3 => prop::sample::select(vec![128u64 << 10, 192 << 10, 256 << 10, 320 << 10]),
        2 => (1u64 << 20)..(3 << 20),
        3 => (4u64 << 20)..(4 << 20) + (64 << 12),
        1 => (4u64 << 20)..(8 << 20),
        2 => (8u64 << 20)..(12 << 20),
    ];
    (at, prop_oneof![Just(1u64), 1..200u64, 4096..70_000u64])
}

fn damage_at_most(disks: usize) -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    let one = (0..disks, place()).prop_map(|(disk, (at, length))| (disk, at, length));
    proptest::collection::vec(one, 1..6)
}

/// Makes a group with a file, dismounts or abandons it, damages its disks, and mounts it again.
fn mount_damaged(seed: u64, clean: bool, damage: &[(usize, u64, u64)], must_mount: bool) {
    let shape = Shape::default();
    let rig = Rig::new(seed, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        let data: Bytes = (0..3u32 << 20).map(|i| (i / 7 + i / 4096) as u8).collect();
        file.set_size(data.len() as u64).await.unwrap();
        file.write_at(Io::SCAN, 0, data.clone(), Durability::Durable).await.unwrap();
        group.publish(&file, "d/f", false).await.unwrap();
        drop(file);
        match clean {
            true => group.dismount().await.unwrap(),
            false => group.abandon(),
        }
        drop(group);
        for (disk, at, length) in damage {
            rig.disks[*disk].corrupt(*at, (*length).min((40 << 20) - at));
        }
        for disk in &rig.disks {
            let device: std::sync::Arc<dyn Device> = disk.clone();
            let shown = inspect(&device).await.to_string();
            assert!(shown.starts_with("disk: "), "{shown}");
        }
        let group = match rig.mount_with(rig.found(), MountOptions::default()).await {
            Ok(group) => group,
            Err(error) => {
                assert!(!must_mount, "one damaged disk of four: {error}");
                assert!(error.number() > 0 && !error.next_step().to_string().is_empty(), "{error}");
                return;
            }
        };
        let file = group.open("d/f").unwrap();
        let read = file.read_group(Io::SCAN, 0, vec![cellar_io::Buffer::new(data.len())]).await;
        match read {
            Ok(read) => assert!(read[0][..] == data[..], "other data than was written"),
            Err(error) => {
                assert!(!must_mount, "one damaged disk of four: {error}");
                assert!(error.number() > 0 && !error.next_step().to_string().is_empty(), "{error}");
            }
        }
        let _ = group.dismount().await;
    })
    .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn one_damaged_disk_is_survived(
        seed in any::<u64>(), clean in any::<bool>(), damage in damage_at_most(1), disk in 0..4usize,
    ) {
        let damage: Vec<_> = damage.into_iter().map(|(_, at, length)| (disk, at, length)).collect();
        mount_damaged(seed, clean, &damage, true);
    }

    #[test]
    fn two_damaged_disks_give_the_data_or_a_reason(
        seed in any::<u64>(), clean in any::<bool>(), damage in damage_at_most(2),
    ) {
        mount_damaged(seed, clean, &damage, false);
    }
}
