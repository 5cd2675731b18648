//! Openings over arbitrary bytes in the places of header and ring: each comes to an end with a store or an error, also
//! where the checksums are right and what stands behind them is not.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Error, Key, Opened, RowId, Store, View};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_page::{PAGE_BYTES, Raw, seal};
use cellar_wait::Session;
use futures_util::future::{Either, select};
use proptest::prelude::*;

use crate::support::{Rig, SMALL};

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const ROWS: u64 = 40;

fn row(number: u64) -> Bytes {
    vec![number as u8; 900].into()
}

fn insert(number: u64) -> Change {
    let keys = vec![Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }];
    Change::Insert { table: TABLE, row: row(number), keys }
}

/// A store after a crash: some of it in its places, some in the log.
fn crashed() -> Rig {
    let rig = Rig::new(3, 2 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        for number in 0..ROWS {
            store.commit(&session, vec![insert(number)]).await.unwrap();
            if number == ROWS / 2 {
                store.checkpoint().await.unwrap();
            }
        }
    });
    rig.sim.crash();
    rig.sim.restart();
    rig
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
enum Way {
    Any,
    ByForce,
    ReadOnly,
    Alone,
}

/// What an opening came to.
type Came = Result<Vec<(RowId, Bytes)>, Error>;

async fn rows(view: &View, session: &Session) -> Came {
    let mut rows = view.scan(session, TABLE).await?;
    rows.sort();
    Ok(rows)
}

/// Opens a store and does something of everything with it.
async fn use_store(rig: &Rig, way: Way) -> Came {
    let session = rig.session();
    match way {
        Way::ReadOnly => rows(&rig.open_read_only().await?.0.view(), &session).await,
        Way::Alone => match rig.open_alone(true).await? {
            Some(reader) => rows(&reader.view(), &session).await,
            None => Ok(Vec::new()),
        },
        Way::Any | Way::ByForce => match rig.open_any().await? {
            Opened::Ahead { reader, .. } => rows(&reader.view(), &session).await,
            Opened::Store(store, _) => go_on(&store, &session).await,
        },
    }
}

async fn go_on(store: &Store, session: &Session) -> Came {
    let found = rows(&store.view(), session).await?;
    for number in 0..6 {
        store.commit(session, vec![insert(ROWS + number)]).await?;
        store.checkpoint().await?;
    }
    store.clone().close().await?;
    Ok(found)
}

/// As [`use_store`], within an hour; afterwards nothing of it goes on.
fn open(rig: &mut Rig, way: Way) -> Came {
    rig.force = matches!(way, Way::ByForce);
    let rig = &*rig;
    let came = rig.run(async {
        let limit = rig.sim.env().sleep(Duration::from_secs(3600));
        match select(Box::pin(use_store(rig, way)), limit).await {
            Either::Left((came, _)) => came,
            Either::Right(_) => panic!("hung: an hour went by"),
        }
    });
    rig.sim.crash();
    rig.sim.restart();
    came
}

fn page(rig: &Rig, number: u32) -> Vec<u8> {
    rig.data.peek(u64::from(number) * PAGE_BYTES as u64, PAGE_BYTES as u64)
}

fn put(rig: &Rig, number: u32, bytes: &[u8]) {
    rig.data.poke(u64::from(number) * PAGE_BYTES as u64, bytes);
}

/// A page of which some bytes are others; its checksum, as header and ring have it, is right.
fn changed(mut bytes: Vec<u8>, changes: &[(usize, Vec<u8>)]) -> Vec<u8> {
    for (at, new) in changes {
        bytes[*at..at + new.len()].copy_from_slice(new);
    }
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Numbers that fields must not have, and some that they may.
fn number() -> impl Strategy<Value = u64> {
    let odd = vec![0, 1, 2, 3, 7, 8, 64, 1000, 1001, 1024, 8144, 1 << 31, 1 << 62, u64::MAX - 1];
    prop_oneof![
        3 => prop::sample::select(odd),
        1 => Just(u64::MAX),
        1 => Just(u64::from(u32::MAX)),
        2 => any::<u64>(),
        2 => 0..100_000u64,
    ]
}

/// Fields of 4 or 8 bytes at these places that have such numbers.
fn fields(
    long: &'static [usize],
    short: &'static [usize],
) -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let long = (prop::sample::select(long), number())
        .prop_map(|(at, number)| (at, number.to_le_bytes().to_vec()));
    let short = (prop::sample::select(short), number())
        .prop_map(|(at, number)| (at, (number as u32).to_le_bytes().to_vec()));
    prop::collection::vec(prop_oneof![long, short], 1..4)
}

fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(&[Way::Any, Way::Any, Way::ByForce, Way::ReadOnly, Way::Alone][..])
}

fn any_page() -> impl Strategy<Value = AnyPage> {
    any::<u64>().prop_map(AnyPage)
}

/// A page of bytes by chance, shown by its seed.
#[derive(Debug)]
struct AnyPage(u64);

impl AnyPage {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        Rng::new(self.0).fill(&mut bytes);
        bytes
    }
}

/// The pages at which the slots of the ring begin.
fn slots() -> Vec<u32> {
    (0..SMALL.ring_batches).map(|slot| 2 + slot * (1 + SMALL.batch_pages)).collect()
}

/// A batch of one image of a page, and both have right checksums.
fn forged(rig: &Rig, slot: u32, of: u32, named: u32, batch: u64) {
    let mut raw: Box<Raw> = page(rig, of).try_into().unwrap();
    raw[4..8].copy_from_slice(&named.to_le_bytes());
    seal(&mut raw);
    put(rig, slot + 1, &raw[..]);
    let head = page(rig, slots()[0]);
    let fields = [
        (0, b"CLHD".to_vec()),
        (16, batch.to_le_bytes().to_vec()),
        (24, 1u32.to_le_bytes().to_vec()),
        (32, named.to_le_bytes().to_vec()),
        (36, raw[..4].to_vec()),
    ];
    put(rig, slot, &changed(head, &fields));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_no_header_and_the_other_copy_counts(
        page in any_page(),
        has_magic in any::<bool>(),
        which in prop::sample::select(vec![vec![0], vec![1], vec![0, 1]]),
        way in way(),
    ) {
        let mut rig = crashed();
        let mut bytes = page.bytes();
        if has_magic {
            bytes[..4].copy_from_slice(b"CLHS");
        }
        which.iter().for_each(|copy| put(&rig, *copy, &bytes));
        match open(&mut rig, way) {
            Ok(_) => prop_assert_eq!(which.len(), 1),
            Err(error) => prop_assert!(which.len() == 2 && error.number() == 1210, "{}", error),
        }
    }

    #[test]
    fn a_header_whose_checksum_is_right_says_what_it_wants(
        fields in fields(
            &[16, 24, 32, 40, 48, 72, 80, 88, 96],
            &[8, 16, 56, 60, 64, 68, 56, 60, 64, 68],
        ),
        is_one in any::<bool>(),
        way in way(),
    ) {
        let mut rig = crashed();
        for copy in 0..if is_one { 1 } else { 2 } {
            let bytes = changed(page(&rig, copy), &fields);
            put(&rig, copy, &bytes);
        }
        if let Err(error) = open(&mut rig, way) {
            prop_assert!(error.number() > 0 && !error.to_string().is_empty());
        }
        // What it has written is no worse.
        let _ = open(&mut rig, Way::Any);
    }

    #[test]
    fn whatever_the_ring_says_what_is_whole_in_its_place_stays(
        fields in fields(&[8, 16, 24, 32, 40], &[16, 24, 28, 32, 36, 40, 60, 64]),
        page_of in any_page(),
        slot in 0..SMALL.ring_batches as usize,
        what in 0..4,
        way in way(),
    ) {
        let (mut whole, mut rig) = (crashed(), crashed());
        let wanted = open(&mut whole, Way::ReadOnly).unwrap();
        prop_assert_eq!(wanted.len() as u64, ROWS);
        let at = slots()[slot];
        match what {
            0 => put(&rig, at, &page_of.bytes()),
            1 => put(&rig, at + 1, &page_of.bytes()),
            _ => put(&rig, at, &changed(page(&rig, at), &fields)),
        }
        for way in [way, Way::Any] {
            match open(&mut rig, way) {
                // Alone it has what is in pages.
                Ok(found) => prop_assert!(matches!(way, Way::Alone) || found[..ROWS as usize] == wanted),
                Err(error) => prop_assert!(matches!(error, Error::PageDamaged { .. }), "{}", error),
            }
        }
    }

    #[test]
    fn an_image_of_what_is_no_page_of_an_object_is_not_written(
        named in prop_oneof![
            0..24u32,
            200..300u32,
            Just(u32::MAX),
        ],
        batch in number(),
        slot in 0..SMALL.ring_batches as usize,
    ) {
        let mut rig = crashed();
        let wanted = open(&mut rig, Way::ReadOnly).unwrap();
        forged(&rig, slots()[slot], 24, named, batch);
        for _ in 0..2 {
            match open(&mut rig, Way::Any) {
                Ok(found) => prop_assert_eq!(&found[..ROWS as usize], &wanted[..]),
                Err(error) => prop_assert!(error.number() != 1210, "{}", error),
            }
        }
    }
}

/// Each once stopped the program, or took all memory, or destroyed what was there.
#[test]
fn numbers_that_are_too_high_or_too_low_are_refused() {
    let most = u64::MAX.to_le_bytes().to_vec();
    let short = |number: u32| number.to_le_bytes().to_vec();
    let headers = [
        // A generation behind which there is none.
        (24, most.clone(), Some(1210)),
        (72, most.clone(), Some(1210)),
        // The map would be made anew, over the one that is there.
        (68, short(0), Some(1210)),
        (68, short(4), Some(1210)),
        (68, short(u32::MAX), Some(70201)),
    ];
    for (at, bytes, number) in headers {
        for way in [Way::Any, Way::ByForce, Way::ReadOnly, Way::Alone] {
            let mut rig = crashed();
            let map = page(&rig, 24);
            let header = changed(page(&rig, 0), &[(at, bytes.clone())]);
            [0, 1].iter().for_each(|copy| put(&rig, *copy, &header));
            let came = open(&mut rig, way).map_err(|error| error.number());
            // What the file does not have is not looked for.
            let is_read = matches!(way, Way::Alone) && bytes == short(u32::MAX);
            assert_eq!(came.err(), number.filter(|_| !is_read), "{at} {bytes:?} {way:?}");
            assert!(page(&rig, 24) == map, "the map stays");
        }
    }
    // A batch behind which there is none.
    let mut rig = crashed();
    forged(&rig, slots()[1], 24, 24, u64::MAX);
    assert_eq!(open(&mut rig, Way::Any).unwrap().len() as u64, ROWS);
    // A page that is newer than any log.
    for way in [Way::Any, Way::ByForce, Way::ReadOnly, Way::Alone] {
        let mut rig = crashed();
        let mut raw: Box<Raw> = page(&rig, 24).try_into().unwrap();
        raw[16..24].copy_from_slice(&most);
        seal(&mut raw);
        put(&rig, 24, &raw[..]);
        let came = open(&mut rig, way).map_err(|error| error.number());
        assert_eq!(came.err(), Some(1113), "{way:?}");
    }
    // What is noted of such a page keeps no later opening out.
    for (way, lsn) in [Way::ByForce, Way::Alone]
        .iter()
        .flat_map(|way| [1 << 62, (1 << 62) - 1, u64::MAX - 1].map(|lsn: u64| (*way, lsn)))
    {
        let mut rig = crashed();
        let mut raw: Box<Raw> = page(&rig, 24).try_into().unwrap();
        raw[16..24].copy_from_slice(&lsn.to_le_bytes());
        seal(&mut raw);
        put(&rig, 24, &raw[..]);
        for _ in 0..2 {
            let came = open(&mut rig, way).map_err(|error| error.number());
            assert_ne!(came.err(), Some(1210), "{way:?} {lsn:#x}");
        }
    }
}
