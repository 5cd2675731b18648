//! Every view has its columns, and rows fit them.

use std::collections::BTreeSet;

use cellar_instance::budget::Budget;
use cellar_instance::parameters::Parameters;
use cellar_instance::views::{self, Kind as ColumnKind, Row, VIEWS, Value};
use cellar_wait::{Event, Kind, Waits};

fn fits(value: &Value, kind: ColumnKind) -> bool {
    match value {
        Value::Null => true,
        Value::Text(_) => kind == ColumnKind::Text,
        Value::Int(_) => kind == ColumnKind::Int,
        Value::Float(_) => kind == ColumnKind::Float,
        Value::Bool(_) => kind == ColumnKind::Bool,
        Value::Time(_) => kind == ColumnKind::Time,
    }
}

fn check<R: Row>(rows: impl IntoIterator<Item = R>) -> Vec<Vec<Value>> {
    let rows = views::values(rows);
    assert!(!rows.is_empty());
    for row in &rows {
        assert_eq!(row.len(), R::VIEW.columns.len());
        for (value, column) in row.iter().zip(R::VIEW.columns) {
            assert!(fits(value, column.kind), "{}: {value:?}", column.name);
        }
    }
    rows
}

#[test]
fn views_and_columns_have_unique_names_and_are_described() {
    assert!(VIEWS.windows(2).all(|pair| pair[0].name < pair[1].name));
    for view in VIEWS {
        assert!(view.name.starts_with("v$") && !view.description.is_empty());
        let names: BTreeSet<&str> = view.columns.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), view.columns.len(), "{}", view.name);
        assert!(view.columns.iter().all(|column| !column.description.is_empty()));
        assert!(names.iter().all(|name| *name == name.to_lowercase()), "{}", view.name);
    }
}

#[test]
fn a_view_has_two_names_and_a_lost_dollar_is_explained() {
    assert_eq!(views::find("V$ASM_DISK").unwrap().name, "v$asm_disk");
    assert_eq!(views::find("cellar.asm_disk").unwrap().name, "v$asm_disk");
    assert_eq!(views::find("asm_disk").unwrap_err().number(), 942);
    let error = views::find("v").unwrap_err();
    assert!(error.to_string().contains("single quotes"), "{error}");
    let error = views::find("v$nothing").unwrap_err();
    assert!(error.to_string().contains("v$system_event"), "{error}");
}

#[test]
fn waits_are_rows() {
    let waits = Waits::new();
    let session = waits.session("query", Kind::User);
    for nanos in [900, 1_500, 30_000_000] {
        session.begin(Event::DB_FILE_SEQUENTIAL_READ, [4, 100, 1], 0).end(nanos);
    }
    waits.record(Event::DISK_FLUSH, Kind::Background, 50_000);

    let rows: Vec<_> = views::system_event(&waits).collect();
    let row = &rows[0];
    assert_eq!((row.event, row.class, row.total_waits), ("db file sequential read", "User I/O", 3));
    assert_eq!((row.time_waited, row.time_waited_micro, row.max_wait_micro), (3, 30_002, 30_000));
    assert!((row.average_wait - 1.0).abs() < 1e-9);
    assert_eq!((rows[1].total_waits_fg, rows[1].average_wait_fg), (0, None));
    check(rows);

    let histogram: Vec<_> = views::event_histogram_micro(&waits).collect();
    let read: Vec<_> = histogram.iter().filter(|row| row.event == rows_name()).collect();
    assert_eq!(read.len(), 16, "up to the bucket of the longest wait");
    assert_eq!((read[0].wait_time_micro, read[0].wait_count), (1, 1));
    assert_eq!((read[1].wait_time_micro, read[1].wait_count), (2, 1));
    assert_eq!((read[15].wait_time_micro, read[15].wait_count), (32_768, 1));
    check(histogram);
    check(views::session_event(&waits));
    assert_eq!(check(views::event_name()).len(), Event::COUNT);
}

fn rows_name() -> &'static str {
    Event::DB_FILE_SEQUENTIAL_READ.name()
}

#[test]
fn session_wait_tells_present_and_last_waits() {
    let waits = Waits::new();
    let session = waits.session("query", Kind::User);
    let never = views::session_wait(&waits, 5).next().unwrap();
    assert_eq!((never.event, never.state, never.wait_time), (None, None, None));

    let wait = session.begin(Event::LOG_FILE_SYNC, [7, 8, 9], 1_000_000_000);
    let row = views::session_wait(&waits, 4_500_000_000).next().unwrap();
    assert_eq!(
        (row.state, row.wait_time, row.seconds_in_wait),
        (Some("WAITING"), Some(0), Some(3))
    );
    assert_eq!((row.p1_text, row.p1, row.p2), (Some("buffer#"), Some(7), Some(8)));
    assert_eq!(row.p3, None, "log file sync has no third parameter");

    wait.end(5_000_000_000);
    let row = views::session_wait(&waits, 6_000_000_000).next().unwrap();
    assert_eq!((row.state, row.wait_time), (Some("WAITED KNOWN TIME"), Some(400)));
    assert_eq!(row.time_since_last_wait_micro, Some(1_000_000));
    session.begin(Event::LOG_FILE_SYNC, [0; 3], 0).end(5_000);
    let row = views::session_wait(&waits, 6_000).next().unwrap();
    assert_eq!((row.state, row.wait_time), (Some("WAITED SHORT TIME"), Some(-1)));
    check(views::session_wait(&waits, 0));
}

#[test]
fn parameters_and_memory_are_rows() {
    let rows = check(Parameters::without_file().rows());
    assert!(rows.iter().any(|row| row[1] == Value::Text("filesystemio_options".into())));
    check(Budget::new(1 << 30).rows());
}
