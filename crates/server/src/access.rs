//! Who may connect: the owner of the database, who is its one role.

use crate::error::Refusal;
use crate::wire::startup::Startup;

/// The role that `init` makes.
pub(crate) const ROLE: &str = "cellar";

/// The database of a directory, for clients.
const DATABASE: &str = "cellar";

/// Who is let in.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The user of the system who runs the server.
    owner: u32,
    /// What that user is called.
    owner_name: Option<String>,
    /// What the directory is called.
    directory: Option<String>,
}

impl Access {
    pub fn new(owner: u32, directory: Option<String>) -> Access {
        Access { owner, owner_name: name_of(owner), directory }
    }

    /// Lets somebody in, or not. `uid`: the user at the other end; `None`: nobody knows.
    ///
    /// # Errors
    /// 28000 another user, or another role; 3D000 another database.
    pub fn check(&self, uid: Option<u32>, startup: &Startup) -> Result<(), Refusal> {
        match uid {
            Some(uid) if uid == self.owner => {}
            Some(uid) => {
                let text = format!(
                    "user {uid} of this machine may not connect: the database is of user {}",
                    self.owner
                );
                return Err(Refusal::new("28000", text)
                    .hint("passwords are not in this version of Cellar: connect as its owner"));
            }
            None => {
                return Err(Refusal::new("28000", "the kernel does not tell who connects")
                    .hint("connect by the socket in the directory: psql -h DIR"));
            }
        }
        let user = &startup.user;
        if user != ROLE && Some(user) != self.owner_name.as_ref() {
            let text = format!("role \"{user}\" does not exist");
            return Err(Refusal::new("28000", text).hint("the one role is cellar: psql -U cellar"));
        }
        match startup.database.as_deref() {
            // What a client says that was told nothing.
            None => Ok(()),
            Some(name) if name == DATABASE || name == user => Ok(()),
            Some(name) if Some(name) == self.directory.as_deref() => Ok(()),
            Some(name) => {
                let text = format!("database \"{name}\" does not exist");
                Err(Refusal::new("3D000", text).hint("the database is called cellar"))
            }
        }
    }
}

/// What a user of the system is called.
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

    #[test]
    fn the_owner_is_let_in_and_nobody_else() {
        let access =
            Access { owner: 7, owner_name: Some("me".into()), directory: Some("d".into()) };
        let check = |uid, user: &str, database: Option<&str>| {
            let database = database.map(str::to_owned);
            let startup = Startup { user: user.to_owned(), database, ..Startup::default() };
            access.check(uid, &startup).map_err(|refusal| refusal.sqlstate)
        };
        assert_eq!(check(Some(7), "cellar", None), Ok(()));
        assert_eq!(check(Some(7), "me", Some("me")), Ok(()));
        assert_eq!(check(Some(7), "cellar", Some("d")), Ok(()));
        assert_eq!(check(Some(7), "you", None), Err("28000"));
        assert_eq!(check(Some(7), "cellar", Some("x")), Err("3D000"));
        assert_eq!(check(Some(0), "cellar", None), Err("28000"));
        assert_eq!(check(None, "cellar", None), Err("28000"));
        assert_eq!(name_of(0).as_deref(), Some("root"));
    }
}
