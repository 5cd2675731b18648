//! Failed logins: each costs more time than the one before from the same place, and nobody elsewhere
//! waits.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::socket::Peer;

/// The delay after the first failure; each further one doubles it.
const FIRST: Duration = Duration::from_millis(100);

/// The longest delay.
const MOST: Duration = Duration::from_secs(4);

/// How long failures are remembered.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Logins that may be under way at once from one place; others wait.
const AT_ONCE: usize = 16;

/// Places that are remembered.
const PLACES: usize = 10_000;

/// Where a login comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    User(u32),
    Address(IpAddr),
    Nobody,
}

impl Place {
    fn of(peer: &Peer) -> Place {
        match (peer.uid, peer.address) {
            (Some(uid), _) => Place::User(uid),
            // Whoever has one IPv6 address has its whole network.
            (None, Some(IpAddr::V6(address))) => {
                let network = address.to_bits() & !(u128::from(u64::MAX));
                Place::Address(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            (None, Some(address)) => Place::Address(address),
            (None, None) => Place::Nobody,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// How many logins have failed, and when the last one did.
    failed: HashMap<Place, (u32, Option<Instant>)>,
    /// Who may go on, and how many are there, those that wait among them.
    under_way: HashMap<Place, (Arc<Semaphore>, usize)>,
}

/// Logins of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoginThrottle(Arc<Mutex<State>>);

/// A login under way, until it is dropped.
pub(crate) struct Attempt {
    login_throttle: LoginThrottle,
    place: Place,
    permit: Option<OwnedSemaphorePermit>,
}

impl LoginThrottle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a login, once few enough from the same place are under way.
    pub async fn begin(&self, peer: &Peer) -> Attempt {
        let place = Place::of(peer);
        let turns = {
            let mut state = self.state();
            let new = || (Arc::new(Semaphore::new(AT_ONCE)), 0);
            let (turns, count) = state.under_way.entry(place).or_insert_with(new);
            *count += 1;
            Arc::clone(turns)
        };
        // Counted from here on, even if it is given up while it waits.
        let mut attempt = Attempt { login_throttle: self.clone(), place, permit: None };
        // Nobody closes it.
        attempt.permit = turns.acquire_owned().await.ok();
        attempt
    }
}

impl Attempt {
    /// It has failed: how long the client has to wait for that answer.
    pub fn failed(&self, now: Instant) -> Duration {
        let mut state = self.login_throttle.state();
        let is_old = |at: &Option<Instant>| at.is_none_or(|at| now.duration_since(at) > REMEMBERED);
        if state.failed.len() >= PLACES {
            state.failed.retain(|_, (_, at)| !is_old(at));
        }
        if state.failed.len() >= PLACES && !state.failed.contains_key(&self.place) {
            // Nobody knows any more how often: as if it were often.
            return MOST;
        }
        let (count, at) = state.failed.entry(self.place).or_default();
        *count = if is_old(at) { 1 } else { count.saturating_add(1) };
        *at = Some(now);
        FIRST.saturating_mul(1 << (*count - 1).min(16)).min(MOST)
    }

    /// The login has succeeded.
    pub fn succeeded(&self) {
        self.login_throttle.state().failed.remove(&self.place);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut state = self.login_throttle.state();
        if let Some((_, count)) = state.under_way.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                state.under_way.remove(&self.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Peer {
        Peer { uid: None, address: address.parse().ok() }
    }

    /// An attempt that goes on at once.
    fn begun(login_throttle: &LoginThrottle, address: &str) -> Option<Attempt> {
        futures_util::FutureExt::now_or_never(login_throttle.begin(&from(address)))
    }

    #[test]
    fn failures_cost_more_and_more_where_they_come_from() {
        let (login_throttle, now) = (LoginThrottle::default(), Instant::now());
        let begin = |address| begun(&login_throttle, address).unwrap();
        let costs: Vec<u64> = (0..8)
            .map(|_| u64::try_from(begin("10.0.0.1").failed(now).as_millis()).unwrap())
            .collect();
        assert_eq!(costs, [100, 200, 400, 800, 1600, 3200, 4000, 4000]);
        assert_eq!(begin("10.0.0.2").failed(now), FIRST);
        // The same network, and another one.
        begin("2001:db8::1").failed(now);
        assert_eq!(begin("2001:db8::2").failed(now), FIRST * 2);
        assert_eq!(begin("2001:db8:0:1::1").failed(now), FIRST);
        begin("10.0.0.1").succeeded();
        assert_eq!(begin("10.0.0.1").failed(now), FIRST);
        assert_eq!(begin("10.0.0.1").failed(now + REMEMBERED * 2), FIRST);
    }

    #[test]
    fn only_so_many_are_under_way_from_one_place() {
        let login_throttle = LoginThrottle::default();
        let first: Vec<Attempt> =
            (0..AT_ONCE).map(|_| begun(&login_throttle, "10.0.0.1").unwrap()).collect();
        assert!(begun(&login_throttle, "10.0.0.1").is_none(), "it waits");
        assert!(begun(&login_throttle, "10.0.0.2").is_some());
        drop(first);
        assert!(begun(&login_throttle, "10.0.0.1").is_some());
        assert!(login_throttle.state().under_way.is_empty());
    }
}
