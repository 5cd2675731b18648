//! Bytes that are not as they were written: an error that says where, never an answer.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use cellar_cell::Error;
use cellar_format::Header;
use cellar_io::Device;
use cellar_io::sim::Sim;

use crate::ask::everything;
use crate::rig::{disks, open, open_all, run, scan};
use crate::seeds;
use crate::table::Rng;
use crate::tables::{Bag, Table};

#[test]
fn a_rotten_byte_is_an_error_or_was_not_asked_for() {
    seeds(150, |seed| {
        let mut rng = Rng(seed);
        let (sim, table) = (Sim::new(seed), Table::random(&mut rng));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let segments = open_all(&disks, &table).await;
            let at = rng.below(disks.len());
            let (piece, bytes) = rng.pick(&table.images[at].pieces);
            let byte = rng.below(bytes.len());
            disks[at].poke(piece + byte as u64, &[bytes[byte] ^ (1 << rng.below(8))]);
            let columns: Vec<usize> = (0..table.types.len()).collect();
            let mut request = everything(&table, &segments, &columns);
            request.depth = 1 + rng.below(4);
            let answer = scan(&env, request).await;
            match &answer.errors[..] {
                // It is in a header that is known already, behind a column, or behind all of them.
                [] => assert_eq!(Bag::of(&answer.items), table.rows(&columns, |_, _| true)),
                errors => {
                    let said = |error: &Error| matches!(error, Error::Damaged { .. });
                    assert!(errors.iter().all(said), "{errors:?}");
                    let text = errors[0].to_string();
                    assert!(text.contains("damaged"), "{text}");
                }
            }
            // Opened with it, the segment is refused or as good as ever.
            let device = Arc::clone(&disks[at]) as Arc<dyn Device>;
            if let Err(error) = open(device, &table, &table.images[at]).await {
                assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
            }
        });
    });
}

#[test]
fn a_read_that_fails_ends_the_scan_with_its_error() {
    seeds(30, |seed| {
        let mut rng = Rng(seed);
        let (sim, table) = (Sim::new(seed), Table::counted(&[3, 3]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let segments = open_all(&disks, &table).await;
            disks[rng.below(2)].fail_reads(0..1 << 40);
            let answer = scan(&env, everything(&table, &segments, &[0, 1])).await;
            assert!(matches!(answer.errors[..], [Error::Io(_)]), "{:?}", answer.errors);
        });
    });
}

/// A table whose second row group has a second column with numbers of strings that there are not: its
/// writer was wrong, and all checksums are right.
fn badly_written() -> Table {
    let group = || -> Vec<ArrayRef> {
        let fruits = ["apple", "plum", "pear"];
        let fruits = (0..1024).map(|row| fruits[row % 3]);
        vec![
            Arc::new(Int64Array::from_iter_values(0..1024)),
            Arc::new(StringArray::from_iter_values(fruits)),
        ]
    };
    let mut table = Table::of(&[vec![group(), group()]]);
    let image = &mut table.images[0];
    let bytes = &mut image.pieces[1].1;
    let mut header = Header::decode(bytes).expect("as written");
    let entry = &mut header.entries[1];
    let end = (entry.offset + entry.length) as usize;
    bytes[end - 128..end].fill(0xff);
    entry.crc = crc32c::crc32c(&bytes[entry.offset as usize..end]);
    let header = header.encode();
    bytes[..header.len()].copy_from_slice(&header);
    // Nothing behind the row groups: they are asked themselves.
    image.pieces[2].1.fill(0);
    table
}

#[test]
fn what_a_writer_did_wrong_is_told_of_its_row_group() {
    let (sim, table) = (Sim::new(1), badly_written());
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        let answer = scan(&env, everything(&table, &segments, &[0, 1])).await;
        let [error] = &answer.errors[..] else { panic!("{answer:?}") };
        let text = error.to_string();
        assert!(text.starts_with("row group 1 of segment40 is damaged"), "{text}");
    });
}
