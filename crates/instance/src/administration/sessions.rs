//! Ends of other sessions: ALTER SYSTEM KILL SESSION and DISCONNECT SESSION.

use super::{Administrator, Reply, done};
use crate::error::{Error, Result};
use crate::session::{Order, Unheeded};

impl Administrator {
    /// Ends a session: at once, or when its transaction has ended.
    pub(super) fn end_session(&self, sid: u32, serial: u32, waits: bool) -> Result<Reply> {
        if sid == self.session.sid() && serial == self.session.waits().serial() {
            return Err(Error::new(27, "the session that asks cannot end itself")
                .hint("disconnect, or do it from another session"));
        }
        let order = if waits { Order::EndAfter } else { Order::End };
        let sessions = self.database.instance().sessions();
        match sessions.order_of(sid, serial, order) {
            Ok(()) if waits => Ok(done("System altered: the session ends with its transaction.")),
            Ok(()) => Ok(done("System altered: the session ends.")),
            Err(Unheeded::Gone) => {
                let text = format!("there is no session {sid},{serial}");
                Err(Error::new(30, text).hint("select sid, serial#, user_name from v$session"))
            }
            Err(Unheeded::NotOfUser) => {
                let text = format!("the session {sid},{serial} is not that of a client");
                Err(Error::new(29, text)
                    .hint("select sid, serial# from v$session where user_name is not null"))
            }
        }
    }
}
