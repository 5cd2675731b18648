//! Sessions of the instance: who works here, and what statement it executes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, Instant, SharedEnv, WallTime};
use cellar_wait::{Event, Kind, Waits};

use crate::views::instance::VSession;
use crate::views::waits::{WaitColumns, kind_name};

struct Shared {
    env: SharedEnv,
    waits: Waits,
    /// By session number and serial: a number is reused as soon as its last wait is gone.
    open: Mutex<BTreeMap<(u32, u32), Weak<Inner>>>,
}

/// All sessions of one instance. Cloning gives another handle on the same.
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

struct Inner {
    sessions: Arc<Shared>,
    wait: cellar_wait::Session,
    program: String,
    user: Option<String>,
    logon: WallTime,
    call: Mutex<Call>,
    heeds: Mutex<Option<Heeds>>,
}

/// What others may ask of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// That its statement stops.
    Cancel,
    /// That it ends.
    End,
    /// That it ends as soon as it is in no transaction.
    EndAfter,
}

/// Why a session does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheeded {
    /// No session has these numbers.
    Gone,
    /// It is not a client's session.
    NotOfUser,
}

/// How a session does what is asked of it.
type Heeds = Arc<dyn Fn(Order) + Send + Sync>;

struct Call {
    statement: Option<String>,
    /// When it became active or inactive.
    since: Instant,
}

/// A session. Clones are the same session; it ends with the last of them.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// A statement up to the first word PASSWORD: what follows may be one.
pub fn without_password(statement: &str) -> Cow<'_, str> {
    const WORD: &[u8] = b"password";
    let bytes = statement.as_bytes();
    let mut from = 0;
    // A letter that few words have.
    while let Some(at) = bytes[from..].iter().position(|own| own.eq_ignore_ascii_case(&b'w')) {
        let begin = (from + at).checked_sub(4);
        let word = begin.and_then(|begin| Some((begin, bytes.get(begin..begin + WORD.len())?)));
        if let Some((begin, word)) = word
            && word.eq_ignore_ascii_case(WORD)
        {
            return format!("{} ***", &statement[..begin + WORD.len()]).into();
        }
        from += at + 1;
    }
    statement.into()
}

/// Shows a statement as executing until it is dropped.
#[must_use = "the statement is over when this is dropped"]
pub struct Executing(Session);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// No sessions yet.
    pub fn new(env: SharedEnv, waits: Waits) -> Sessions {
        Sessions(Arc::new(Shared { env, waits, open: Mutex::default() }))
    }

    /// The waits that all sessions are counted in.
    pub fn waits(&self) -> &Waits {
        &self.0.waits
    }

    /// Begins a user's session.
    pub fn user(&self, program: &str, user: &str) -> Session {
        self.begin(program, Some(user), Kind::User)
    }

    /// Begins a session of the instance's own.
    pub fn background(&self, program: &str) -> Session {
        self.begin(program, None, Kind::Background)
    }

    fn begin(&self, program: &str, user: Option<&str>, kind: Kind) -> Session {
        let shared = &self.0;
        let session = Session(Arc::new(Inner {
            sessions: Arc::clone(shared),
            wait: shared.waits.session(program, kind),
            program: program.to_owned(),
            user: user.map(str::to_owned),
            logon: shared.env.wall(),
            call: Mutex::new(Call { statement: None, since: shared.env.now() }),
            heeds: Mutex::default(),
        }));
        let key = (session.sid(), session.0.wait.serial());
        lock(&shared.open).insert(key, Arc::downgrade(&session.0));
        session
    }

    /// The user whose session has this number.
    pub fn user_of(&self, sid: u32) -> Option<String> {
        self.find(sid).and_then(|session| session.user.clone())
    }

    /// Sends a request to the session with this number: false if there is none, or it takes no requests.
    pub fn order(&self, sid: u32, order: Order) -> bool {
        let heeds = self.find(sid).and_then(|session| lock(&session.heeds).clone());
        heeds.map(|heeds| heeds(order)).is_some()
    }

    /// Sends a request to the session with these numbers.
    ///
    /// # Errors
    /// There is none, or it heeds nothing.
    pub fn order_of(&self, sid: u32, serial: u32, order: Order) -> Result<(), Unheeded> {
        let session = lock(&self.0.open).get(&(sid, serial)).and_then(Weak::upgrade);
        let session = session.ok_or(Unheeded::Gone)?;
        let heeds = lock(&session.heeds).clone().ok_or(Unheeded::NotOfUser)?;
        heeds(order);
        Ok(())
    }

    fn find(&self, sid: u32) -> Option<Arc<Inner>> {
        let open = lock(&self.0.open);
        open.range((sid, 0)..=(sid, u32::MAX)).find_map(|(_, session)| session.upgrade())
    }

    /// How many sessions are open.
    pub fn count(&self) -> usize {
        lock(&self.0.open).len()
    }

    /// How many of them are a user's.
    pub fn count_of(&self, user: &str) -> usize {
        let open: Vec<_> = lock(&self.0.open).values().filter_map(Weak::upgrade).collect();
        open.iter().filter(|session| session.user.as_deref() == Some(user)).count()
    }

    /// The rows of `v$session`, by session number.
    pub fn rows(&self) -> Vec<VSession> {
        let now = self.0.env.now();
        let waiting: BTreeMap<(u32, u32), _> = self
            .0
            .waits
            .sessions()
            .into_iter()
            .filter(|view| view.helper == 0)
            .map(|view| ((view.sid, view.serial), view))
            .collect();
        // Upgraded under the lock, dropped without it: the last handle takes the same lock.
        let open: Vec<_> = lock(&self.0.open).values().filter_map(Weak::upgrade).collect();
        let row = |session: &Arc<Inner>| {
            let key = (session.wait.sid(), session.wait.serial());
            let wait = waiting.get(&key).map(|view| WaitColumns::of(view, now.0));
            session.row(&wait.unwrap_or_default(), now)
        };
        open.iter().map(row).collect()
    }
}

impl Inner {
    fn row(&self, wait: &WaitColumns, now: Instant) -> VSession {
        let call = lock(&self.call);
        VSession {
            sid: self.wait.sid(),
            serial: self.wait.serial(),
            user_name: self.user.clone(),
            status: if call.statement.is_some() { "ACTIVE" } else { "INACTIVE" },
            program: self.program.clone(),
            kind: kind_name(self.wait.kind()),
            sql_text: call.statement.clone(),
            logon_time: self.logon,
            last_call_et: now.since(call.since).as_secs(),
            event_number: wait.event.map(|event| u32::from(event.number())),
            event: wait.event.map(Event::name),
            p1_text: wait.text(0),
            p1: wait.p(0),
            p2_text: wait.text(1),
            p2: wait.p(1),
            p3_text: wait.text(2),
            p3: wait.p(2),
            wait_class_id: wait.event.map(|event| event.class().id()),
            wait_class_number: wait.event.map(|event| u32::from(event.class().number())),
            wait_class: wait.event.map(|event| event.class().name()),
            wait_time: wait.wait_time,
            seconds_in_wait: wait.seconds_in_wait,
            state: wait.state,
            wait_time_micro: wait.wait_time_micro,
            time_since_last_wait_micro: wait.time_since_last_wait_micro,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        lock(&self.sessions.open).remove(&(self.wait.sid(), self.wait.serial()));
    }
}

impl Session {
    /// The number of the session.
    pub fn sid(&self) -> u32 {
        self.0.wait.sid()
    }

    /// The handle on which its waits begin; a task beside it takes a
    /// [`helper`](cellar_wait::Session::helper).
    pub fn waits(&self) -> &cellar_wait::Session {
        &self.0.wait
    }

    /// Begins a wait now.
    pub fn begin(&self, event: Event, p: [u64; 3]) -> cellar_wait::Wait<'_> {
        self.0.wait.begin(event, p, self.now())
    }

    /// Waits for a time, as its user asks.
    #[boxed]
    pub async fn sleep(&self, time: Duration) {
        let hundredths = u64::try_from(time.as_millis() / 10).unwrap_or(u64::MAX);
        let wait = self.begin(Event::PL_SQL_LOCK_TIMER, [hundredths, 0, 0]);
        self.0.sessions.env.sleep(time).await;
        wait.end(self.now());
    }

    /// Now, as [`Wait::end`](cellar_wait::Wait::end) wants it.
    pub fn now(&self) -> u64 {
        self.0.sessions.env.now().0
    }

    /// Has it do by `heeds` what others ask of it.
    pub fn heed(&self, heeds: impl Fn(Order) + Send + Sync + 'static) {
        *lock(&self.0.heeds) = Some(Arc::new(heeds));
    }

    /// The user whose session it is; one of the instance's own has none.
    pub fn user(&self) -> Option<&str> {
        self.0.user.as_deref()
    }

    /// Shows `statement` as the one that the session executes, without a password that may be in it.
    pub fn execute(&self, statement: &str) -> Executing {
        self.set(Some(without_password(statement).into_owned()));
        Executing(self.clone())
    }

    fn set(&self, statement: Option<String>) {
        let since = self.0.sessions.env.now();
        *lock(&self.0.call) = Call { statement, since };
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn what_follows_password_is_not_shown() {
        for (statement, shown) in [
            ("create role r PASSWORD 'x'", "create role r PASSWORD ***"),
            (
                "select 1; alter user \u{e9} with passwOrd/**/$$x$$",
                "select 1; alter user \u{e9} with passwOrd ***",
            ),
            ("select w from wwww", "select w from wwww"),
            ("passwor", "passwor"),
            ("w", "w"),
            ("", ""),
        ] {
            assert_eq!(without_password(statement), shown);
        }
    }
}
