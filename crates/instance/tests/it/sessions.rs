//! Sessions of an instance are rows while they are open.

use cellar_instance::session::Sessions;
use cellar_wait::{Event, Waits};

use crate::env::threads;

#[test]
fn a_session_is_a_row_with_its_statement_and_its_wait() {
    let sessions = Sessions::new(threads(), Waits::new());
    let session = sessions.user("cellar sql", "anna");
    let worker = sessions.background("resync");
    let executing = session.execute("select 1");
    let wait = session.begin(Event::DIRECT_PATH_READ, [3, 0, 256]);

    let rows = sessions.rows();
    assert_eq!(rows.len(), 2);
    let row = &rows[0];
    assert_eq!((row.sid, row.user_name.as_deref(), row.kind), (1, Some("anna"), "USER"));
    assert_eq!((row.status, row.sql_text.as_deref()), ("ACTIVE", Some("select 1")));
    assert_eq!((row.event, row.state), (Some("direct path read"), Some("WAITING")));
    assert_eq!((row.p3_text, row.p3), (Some("block cnt"), Some(256)));
    assert_eq!((rows[1].kind, rows[1].user_name.as_deref()), ("BACKGROUND", None));
    assert_eq!(rows[1].event, None);

    wait.end(session.now());
    drop(executing);
    let row = sessions.rows().remove(0);
    assert_eq!((row.status, row.sql_text), ("INACTIVE", None));
    drop(worker);
    assert_eq!(sessions.count(), 1);
    drop(session);
    assert_eq!(sessions.rows(), []);
}
