//! Observation of sessions: their current waits are seen from outside, without making them wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cellar_wait::{Event, Kind, WaitState, Waits};

#[test]
fn a_wait_is_seen_while_it_lasts_and_after_it() {
    let waits = Waits::new();
    let session = waits.session("query", Kind::User);
    let view = &waits.sessions()[0];
    assert_eq!((view.state, view.event), (WaitState::NeverWaited, None));
    assert_eq!((view.sid, view.kind, view.name.as_str()), (1, Kind::User, "query"));

    let wait = session.begin(Event::LOG_FILE_SYNC, [7, 8, 9], 100);
    let view = &thread::scope(|s| s.spawn(|| waits.sessions()).join().expect("it reads"))[0];
    assert_eq!(view.state, WaitState::Waiting { since: 100 });
    assert_eq!((view.event, view.p, view.seq), (Some(Event::LOG_FILE_SYNC), [7, 8, 9], 1));

    wait.end(350);
    let view = &waits.sessions()[0];
    let last = WaitState::Waited { nanos: 250, ended: 350, timed_out: false };
    assert_eq!((view.state, view.event), (last, Some(Event::LOG_FILE_SYNC)));

    drop(session.begin(Event::DISK_READ, [0; 3], 400));
    let view = &waits.sessions()[0];
    assert_eq!((view.state, view.event, view.seq), (last, Some(Event::LOG_FILE_SYNC), 2));
}

#[test]
fn helpers_wait_beside_their_session_and_count_for_it() {
    let waits = Waits::new();
    let session = waits.session("scan", Kind::User);
    let helper = session.helper();
    let (mine, its) = (
        session.begin(Event::CELL_SMART_TABLE_SCAN, [1, 0, 0], 10),
        helper.begin(Event::DIRECT_PATH_READ, [2, 0, 0], 20),
    );
    let events: Vec<_> = waits.sessions().iter().map(|v| (v.sid, v.helper, v.event)).collect();
    let expected =
        [(1, 0, Some(Event::CELL_SMART_TABLE_SCAN)), (1, 1, Some(Event::DIRECT_PATH_READ))];
    assert_eq!(events, expected);
    its.end(120);
    mine.end(210);
    drop(helper);
    assert_eq!(waits.sessions().len(), 1);
    let totals = waits.session_totals();
    let sums: Vec<_> = totals.iter().map(|t| (t.event, t.count, t.nanos)).collect();
    let expected = [(Event::DIRECT_PATH_READ, 1, 100), (Event::CELL_SMART_TABLE_SCAN, 1, 200)];
    assert_eq!(sums, expected);
}

#[test]
fn a_second_wait_on_one_handle_is_seen_beside_the_first() {
    let waits = Waits::new();
    let session = waits.session("s", Kind::User);
    let first = session.begin_owned(Event::DISK_READ, [1, 0, 0], 0);
    let second = session.begin(Event::DISK_WRITE, [2, 0, 0], 5);
    assert_eq!(waits.sessions().len(), 2);
    first.end(10);
    second.end(25);
    assert_eq!(waits.sessions().len(), 1);
    let nanos: Vec<_> = waits.session_totals().iter().map(|t| t.nanos).collect();
    assert_eq!(nanos, [10, 20]);
}

#[test]
fn numbers_are_used_again_and_serials_are_not() {
    let waits = Waits::new();
    let one = waits.session("one", Kind::User);
    let two = waits.session("two", Kind::Background);
    assert_eq!((one.sid(), two.sid()), (1, 2));
    let serial = one.serial();
    let wait = one.begin_owned(Event::DISK_READ, [0; 3], 0);
    drop(one);
    assert_eq!(waits.sessions().len(), 2, "a wait holds its session");
    drop(wait);
    assert_eq!(waits.sessions().len(), 1);
    let again = waits.session("again", Kind::User);
    assert_eq!(again.sid(), 1);
    assert!(again.serial() > serial);
}

#[test]
fn readers_never_see_half_of_a_wait() {
    let waits = Waits::new();
    let stop = AtomicBool::new(false);
    let session = waits.session("writer", Kind::User);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 1u64;
            while !stop.load(Ordering::Relaxed) {
                let event = if n.is_multiple_of(2) { Event::DISK_READ } else { Event::DISK_WRITE };
                session.begin(event, [n, n * 2, n * 3], n).end(n + n);
                n += 1;
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..20_000 {
                        let view = waits.sessions().remove(0);
                        let n = view.p[0];
                        assert_eq!(view.p, [n, n * 2, n * 3]);
                        assert_eq!(view.seq, n);
                        assert!(n >= last);
                        last = n;
                        match view.state {
                            WaitState::Waiting { since } => assert_eq!(since, n),
                            WaitState::Waited { nanos, .. } => assert_eq!(nanos, n),
                            WaitState::NeverWaited => assert_eq!(n, 0),
                        }
                        if n > 0 {
                            let even = view.event == Some(Event::DISK_READ);
                            assert_eq!(even, n.is_multiple_of(2));
                        }
                    }
                })
            })
            .collect();
        let failed = readers.into_iter().filter_map(|r| r.join().err()).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0);
    });
}
