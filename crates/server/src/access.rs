//! Access control: the owner of the database need prove nothing, others must prove that they may use a
//! role.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use cellar_instance::catalog::{Catalog, OWNER, Role};
use cellar_instance::roles::hba::{self, Method, Rules};
use cellar_instance::roles::scram::Verifier;

use crate::error::Refusal;
use crate::login_throttle::LoginThrottle;
use crate::secret;
use crate::socket::Peer;
use crate::tls::Encrypted;
use crate::wire::startup::Startup;

/// The database of a directory, for clients.
const DATABASE: &str = "cellar";

/// Decides who is let in.
pub(crate) struct Access {
    /// The system user who runs the server.
    owner: u32,
    /// What that user is called.
    owner_name: Option<String>,
    /// What the directory is called.
    directory: Option<String>,
    rules: RwLock<Arc<Rules>>,
    /// Derives answers about roles that do not exist.
    secret: Vec<u8>,
    login_throttle: LoginThrottle,
}

/// A client that wants to connect.
pub(crate) struct Asks<'a> {
    pub peer: &'a Peer,
    pub encrypted: Option<&'a Encrypted>,
    pub startup: &'a Startup,
}

/// The role that a client is let in as, and what it must prove first.
#[derive(Debug)]
pub(crate) struct Decision {
    pub role: String,
    pub proof: Option<Proof>,
}

/// Proof that the client knows the password of a role.
#[derive(Debug)]
pub(crate) struct Proof {
    pub verifier: Verifier,
    /// The role exists, and may log in by that method.
    pub is_of_somebody: bool,
}

impl Access {
    /// Who may connect to a directory. `secret`: see [`secret`].
    pub fn new(owner: u32, directory: &Path, rules: Rules) -> Access {
        let name = directory.canonicalize().ok();
        let name = name.as_deref().and_then(Path::file_name);
        Access {
            owner,
            owner_name: name_of(owner),
            directory: name.map(|name| name.to_string_lossy().into_owned()),
            rules: RwLock::new(Arc::new(rules)),
            secret: secret::of(directory),
            login_throttle: LoginThrottle::default(),
        }
    }

    /// Replaces the rules, for connections from now on.
    pub fn set_rules(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Logins under way, and failed ones.
    pub fn login_throttle(&self) -> &LoginThrottle {
        &self.login_throttle
    }

    /// What a client must prove to be let in.
    ///
    /// # Errors
    /// 28000 he is not let in, whatever he could prove.
    pub fn decide(
        &self,
        asks: &Asks<'_>,
        catalog: &Catalog,
        now: i64,
    ) -> Result<Decision, Refusal> {
        let user = &asks.startup.user;
        if asks.peer.is_remote() && asks.encrypted.is_none() {
            let text = "from other machines this server is reached by TLS alone";
            return Err(Refusal::new("28000", text).hint("connect with sslmode=require"));
        }
        let found = catalog.role(user).filter(|(_, role)| role.can_login);
        if asks.peer.uid == Some(self.owner) && !asks.peer.is_remote() {
            let role = match &found {
                Some(_) => user.clone(),
                None if catalog.role(user).is_some() => {
                    let text = format!("role \"{user}\" is not permitted to log in");
                    return Err(Refusal::new("28000", text).hint("alter role .. login"));
                }
                // The name of the system user, which clients send by default.
                None if Some(user) == self.owner_name.as_ref() => OWNER.to_owned(),
                None => {
                    let text = format!("role \"{user}\" does not exist");
                    return Err(Refusal::new("28000", text)
                        .hint("the role of the owner is cellar: psql -U cellar"));
                }
            };
            return Ok(Decision { role, proof: None });
        }
        let method = self.method(asks, catalog);
        let is_known = match method {
            Some(Method::Scram) => {
                let proof = self.proof(user, found.as_ref().map(|(_, role)| &**role), now);
                return Ok(Decision { role: user.clone(), proof: Some(proof) });
            }
            Some(Method::Peer) => asks.peer.uid.and_then(name_of).is_some_and(|name| name == *user),
            Some(Method::Cert) => asks.encrypted.and_then(|own| own.client.as_ref()) == Some(user),
            Some(Method::Reject) | None => {
                let text = format!(
                    "no hba rule lets role \"{user}\" in from {}, {}",
                    asks.peer.address.map_or("the socket".to_owned(), |own| own.to_string()),
                    if asks.encrypted.is_some() { "with TLS" } else { "without TLS" }
                );
                return Err(Refusal::new("28000", text).hint("see hba in DIR/cellar.toml"));
            }
        };
        match is_known && found.is_some() {
            true => Ok(Decision { role: user.clone(), proof: None }),
            false => {
                let word = if method == Some(Method::Cert) { "certificate" } else { "peer" };
                let text = format!("{word} authentication failed for user \"{user}\"");
                Err(Refusal::new("28000", text))
            }
        }
    }

    fn method(&self, asks: &Asks<'_>, catalog: &Catalog) -> Option<Method> {
        let user = &*asks.startup.user;
        let is_member = |role: &str| {
            let of = catalog.role(role).map(|(oid, _)| oid);
            let own = catalog.role(user).map(|(oid, _)| oid);
            of.zip(own).is_some_and(|(of, own)| catalog.roles_of(own, false).contains(&of))
        };
        let rules = Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner));
        rules.method(&hba::Asks {
            address: asks.peer.address,
            is_encrypted: asks.encrypted.is_some(),
            user,
            database: self.database(asks.startup),
            is_member: &is_member,
        })
    }

    /// The stored password of a role, if it is still valid; or something that looks like one.
    fn proof(&self, user: &str, role: Option<&Role>, now: i64) -> Proof {
        let is_valid = |role: &&Role| role.valid_until.is_none_or(|until| now < until);
        let kept = role.filter(is_valid).and_then(|role| role.verifier.as_deref());
        match kept.and_then(Verifier::read) {
            Some(verifier) => Proof { verifier, is_of_somebody: true },
            None => {
                let verifier = Verifier::of_nobody(&self.secret, user);
                Proof { verifier, is_of_somebody: false }
            }
        }
    }

    /// The database that a client asks for, as rules name it.
    fn database<'s>(&self, startup: &'s Startup) -> &'s str {
        match startup.database.as_deref() {
            // What a client sends by default.
            None => DATABASE,
            Some(name) if name == startup.user => DATABASE,
            Some(name) if Some(name) == self.directory.as_deref() => DATABASE,
            Some(name) => name,
        }
    }

    /// Refuses another database.
    ///
    /// # Errors
    /// 3D000.
    pub fn check_database(&self, startup: &Startup) -> Result<(), Refusal> {
        match self.database(startup) {
            DATABASE => Ok(()),
            name => {
                let text = format!("database \"{name}\" does not exist");
                Err(Refusal::new("3D000", text).hint("the database is called cellar"))
            }
        }
    }
}

/// The name of a system user.
fn name_of(uid: u32) -> Option<String> {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(rules: Rules) -> Access {
        Access {
            owner: 7,
            owner_name: Some("me".into()),
            directory: Some("d".into()),
            rules: RwLock::new(Arc::new(rules)),
            secret: vec![1; 32],
            login_throttle: LoginThrottle::default(),
        }
    }

    /// What a client has to prove from a place, and as what it is let in.
    fn decided(access: &Access, uid: Option<u32>, address: &str, user: &str) -> String {
        let peer = Peer { uid, address: address.parse().ok() };
        let startup = Startup { user: user.to_owned(), ..Startup::default() };
        let encrypted = Encrypted { endpoint: None, client: Some("you".into()) };
        let encrypted = (address != "127.0.0.1" && address != "plain").then_some(&encrypted);
        let asks = Asks { peer: &peer, encrypted, startup: &startup };
        match access.decide(&asks, &Catalog::default(), 0) {
            Ok(Decision { role, proof: None }) => role,
            Ok(Decision { role, proof: Some(proof) }) => {
                format!("{role} by password, {}", proof.is_of_somebody)
            }
            Err(refusal) => refusal.sqlstate.to_owned(),
        }
    }

    #[test]
    fn the_owner_proves_nothing_and_everybody_else_does() {
        let access = access(Rules::default());
        assert_eq!(decided(&access, Some(7), "socket", "cellar"), "cellar");
        assert_eq!(decided(&access, Some(7), "127.0.0.1", "me"), "cellar");
        assert_eq!(decided(&access, Some(7), "127.0.0.1", "you"), "28000");
        // Another user of the machine, root among them; an unknown user; another machine, whatever it
        // claims.
        for uid in [Some(0), Some(8), None] {
            assert_eq!(decided(&access, uid, "127.0.0.1", "cellar"), "cellar by password, false");
        }
        assert_eq!(decided(&access, None, "10.0.0.1", "you"), "you by password, false");
        assert_eq!(decided(&access, Some(7), "10.0.0.1", "me"), "me by password, false");
        assert_eq!(name_of(0).as_deref(), Some("root"));
    }

    #[test]
    fn rules_decide_for_others() {
        let rules =
            "hba = [{ type = 'hostssl', method = 'cert' }, { type = 'local', method = 'peer' }]";
        let access = access(Rules::read(rules).unwrap_or_default());
        assert_eq!(decided(&access, None, "10.0.0.1", "cellar"), "28000");
        assert_eq!(decided(&access, Some(8), "127.0.0.1", "cellar"), "28000");
        assert_eq!(decided(&access, Some(7), "127.0.0.1", "cellar"), "cellar");
    }

    #[test]
    fn a_database_has_a_few_names() {
        let access = access(Rules::default());
        for (name, wanted) in [
            (None, Ok(())),
            (Some("cellar"), Ok(())),
            (Some("u"), Ok(())),
            (Some("d"), Ok(())),
            (Some("x"), Err("3D000")),
        ] {
            let database = name.map(str::to_owned);
            let startup = Startup { user: "u".into(), database, ..Startup::default() };
            let checked = access.check_database(&startup).map_err(|refusal| refusal.sqlstate);
            assert_eq!(checked, wanted);
        }
    }
}
