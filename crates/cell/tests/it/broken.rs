//! Bytes that are not as they were written: an error that says where, never an answer.

use std::sync::Arc;

use cellar_cell::Error;
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
