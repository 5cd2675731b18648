//! Logins: the system user who owns the database, and others who prove that they may use a role.

mod scram;

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::Catalog;
use cellar_instance::roles::Logins;
use tokio::time::{Instant, sleep, timeout};

use crate::access::{Access, Asks, Decision};
use crate::error::{Ended, Refusal};
use crate::wire::backend::Out;
use crate::wire::frames::Frames;

/// How long a client may take to prove who it is: somebody may have to type a password.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What is known of the database, and what is counted there.
pub(crate) struct Known<'a> {
    pub access: &'a Access,
    pub catalog: &'a Catalog,
    pub logins: &'a Logins,
    /// Microseconds since 1970.
    pub now: i64,
}

/// Lets a client in as a role, or refuses it.
///
/// # Errors
/// 28000 he may not; 28P01 he has not proved who he is; 3D000 there is no such database.
#[boxed]
pub(crate) async fn let_in(
    (frames, out): (&mut Frames, &mut Out),
    asks: &Asks<'_>,
    known: &Known<'_>,
) -> Result<String, Ended> {
    let proved = prove((frames, out), asks, known).await;
    match &proved {
        Ok(_) => known.logins.succeeded(),
        Err(Ended::Refused(refusal)) if refusal.sqlstate != "28P01" => known.logins.refused(),
        Err(_) => {}
    }
    proved
}

async fn prove(
    (frames, out): (&mut Frames, &mut Out),
    asks: &Asks<'_>,
    known: &Known<'_>,
) -> Result<String, Ended> {
    let decision = known.access.decide(asks, known.catalog, known.now)?;
    let Decision { role, proof } = decision;
    if let Some(proof) = proof {
        let attempt = timeout(TIMEOUT, known.access.login_throttle().begin(asks.peer)).await;
        let attempt = attempt.map_err(|_| Ended::Gone)?;
        let endpoint = asks.encrypted.and_then(|own| own.endpoint.as_ref());
        let work = scram::proved(frames, out, &proof.verifier, endpoint);
        let proved = timeout(TIMEOUT, work).await.unwrap_or(Err(Ended::Gone));
        // A client that disconnects without an answer, as psql does to ask for a password, has not
        // failed.
        if !(proved? && proof.is_of_somebody) {
            known.logins.failed();
            sleep(attempt.failed(Instant::now())).await;
            return Err(Refusal::login(&asks.startup.user).into());
        }
        attempt.succeeded();
    }
    known.access.check_database(asks.startup)?;
    Ok(role)
}
