//! Administration: carries out the statements about disk groups, parameters and the redo log, and reports
//! what they did.
//!
//! A [`Command`] comes from SQL text or from the command line; [`Administrator::run`] is the one place
//! where it becomes calls of storage and of the database.

mod command;
mod disks;
mod files;
mod left_files;
mod offline;
mod redo;
mod scrub;
mod sessions;
mod waiting;

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::TemplateChange;
use cellar_storage::groups::{Explained, Groups};
use cellar_storage::request::{Contents, GroupAction, GroupRequest, GroupSelection, WorkRequest};

pub use command::Command;
pub use disks::refusal;
pub use waiting::UnderWay;

use disks::rename_disks;
use files::{add_alias, add_directories, check};
use scrub::stop_scrub;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::session::Session;

/// The reply to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Reply {
    /// One line: what was done.
    pub message: String,
    /// What the user should also know.
    pub notices: Vec<String>,
}

/// Carries out the commands of one session.
pub struct Administrator {
    database: Arc<Database>,
    session: Session,
    waiting: waiting::Waiting,
}

impl std::fmt::Debug for Administrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Administrator({:?})", self.database)
    }
}

fn done(message: impl Into<String>) -> Reply {
    Reply { message: message.into(), notices: Vec::new() }
}

impl Administrator {
    /// The administrator of a session.
    pub fn new(database: Arc<Database>, session: Session) -> Administrator {
        Administrator { database, session, waiting: waiting::Waiting::default() }
    }

    /// The progress of the work that [`Administrator::run`] or [`Administrator::explain_work`] waits
    /// for now, if it is long.
    pub fn progress(&self) -> Option<UnderWay> {
        self.waiting.progress()
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// What it names is not there or will not do, or a disk fails; 15032 over it where some groups of
    /// several were altered.
    #[boxed]
    pub async fn run(&self, command: Command) -> Result<Reply> {
        match command {
            Command::CreateDiskgroup(request) => self.create(&request).await,
            Command::DropDiskgroup { name, contents } => self.drop_group(&name, contents).await,
            Command::AlterDiskgroup { groups, action } => self.alter_groups(groups, &action).await,
            Command::SetParameter { name, value, scope, comment } => {
                let altered = self.database.alter_system_set(&name, &value, scope).await?;
                let mut reply = done("System altered.");
                reply.notices.extend(altered.notices);
                if comment.is_some() {
                    reply.notices.push("the comment is not kept: cellar.toml has none".to_owned());
                }
                Ok(reply)
            }
            Command::ResetParameter { name, scope } => {
                let altered = self.database.alter_system_reset(&name, scope).await?;
                Ok(Reply { notices: altered.notices, ..done("System altered.") })
            }
            Command::Flush { what } if what == "CELL_CACHE" => {
                self.database.instance().scans().cache().clear();
                Ok(done("System altered: the cell cache is empty."))
            }
            Command::Flush { what } => {
                let text = format!("ALTER SYSTEM FLUSH {what} is not in this version of Cellar");
                Err(Error::new(3001, text))
            }
            Command::EndSession { sid, serial, waits } => self.end_session(sid, serial, waits),
            Command::Redo(action) => self.redo(action).await,
        }
    }

    async fn create(&self, request: &GroupRequest) -> Result<Reply> {
        let mounted = self.groups().create(request).await?;
        let info = mounted.group.info();
        Ok(done(format!(
            "Diskgroup created. {}: {} disks, room for {} MB.",
            info.name,
            mounted.group.disks().len(),
            info.writable_mb
        )))
    }

    async fn drop_group(&self, name: &str, contents: Contents) -> Result<Reply> {
        let including = matches!(contents, Contents::Including { .. });
        self.database.tables().external_files().check_group(name)?;
        let groups = [name.to_uppercase()];
        let files = left_files::members(&self.database, &groups);
        self.database.drop_group(name, including).await?;
        let notices = left_files::told(&self.database, &groups, &files);
        Ok(Reply { notices, ..done("Diskgroup dropped.") })
    }

    async fn alter_groups(&self, groups: GroupSelection, action: &GroupAction) -> Result<Reply> {
        let names = match (groups, action) {
            (GroupSelection::Named(names), _) => names,
            // Those that are mounted are so already, which is what was wanted.
            (GroupSelection::All, GroupAction::Mount { .. }) => {
                self.groups().unmounted_names().await
            }
            (GroupSelection::All, _) => {
                let mut groups = self.database.groups();
                groups.sort_by_key(|m| m.number);
                groups.iter().map(|m| m.group.name().to_owned()).collect()
            }
        };
        let files = left_files::members(&self.database, &names);
        let mut told = vec!["Diskgroup altered.".to_owned()];
        for name in &names {
            let altered = self.alter(name, action).await;
            told.extend(altered.map_err(|e| e.under(15032, "not all alterations performed"))?);
        }
        let mut reply = done(told.join(" "));
        if matches!(action, GroupAction::Dismount { .. }) {
            reply.notices.extend(self.unreadable(&names));
        } else {
            reply.notices.extend(left_files::told(&self.database, &names, &files));
        }
        Ok(reply)
    }

    /// Which tables cannot be read while `groups` are not mounted.
    fn unreadable(&self, groups: &[String]) -> Option<String> {
        let files = self.database.tables().external_files();
        let tables = files.readers_in(groups);
        (!tables.is_empty())
            .then(|| format!("until it is mounted these cannot be read: {}", tables.join(", ")))
    }

    /// What was done, if there is more to say than that the group was altered.
    async fn alter(&self, group: &str, action: &GroupAction) -> Result<Option<String>> {
        let mounted = self.database.group(group);
        let told = match action {
            GroupAction::Disks(change) => self.change_disks(&mounted?, change).await?,
            GroupAction::UndropDisks(then) => self.undrop_disks(&mounted?, *then).await?,
            GroupAction::RenameDisks(names) => rename_disks(&mounted?, names).await?,
            GroupAction::Rebalance(how) => self.rebalance(&mounted?, *how).await?,
            GroupAction::ModifyPower(power) => self.modify_power(&mounted?, *power).await?,
            GroupAction::Offline(request) => self.offline(&mounted?, request).await?,
            GroupAction::Online(request) => self.online(&mounted?, request).await?,
            GroupAction::Replace(request) => self.replace(&mounted?, request).await?,
            GroupAction::Scrub(request) => self.scrub(&mounted?, request).await?,
            GroupAction::StopScrub => stop_scrub(&mounted?).await?,
            GroupAction::Mount { force } => {
                return self.database.mount_group(group, *force).await.map(|_| None);
            }
            GroupAction::Dismount { force } => {
                return self.groups().dismount(group, *force).await.map(|()| None);
            }
            GroupAction::AddDirectory(paths) => {
                return add_directories(&mounted?, paths).await.map(|()| None);
            }
            GroupAction::DropDirectory { path, force } => {
                return self.drop_directory(&mounted?, path, *force).await.map(|()| None);
            }
            GroupAction::RenameDirectory { from, to } | GroupAction::RenameAlias { from, to } => {
                return self.rename(&mounted?, from, to).await.map(|()| None);
            }
            GroupAction::AddAlias { alias, file } => {
                return add_alias(&mounted?, alias, file).await.map(|()| None);
            }
            GroupAction::DropAlias(path) => {
                let paths = std::slice::from_ref(path);
                return self.remove(&mounted?, paths).await.map(|()| None);
            }
            GroupAction::DropFile(paths) => {
                return self.remove(&mounted?, paths).await.map(|()| None);
            }
            GroupAction::AddTemplates(all) => {
                let set = mounted?.group.set_templates(TemplateChange::Add, all).await;
                return Ok(set.map(|_| None)?);
            }
            GroupAction::ModifyTemplates(all) => {
                let set = mounted?.group.set_templates(TemplateChange::Modify, all).await;
                return Ok(set.map(|_| None)?);
            }
            GroupAction::DropTemplates(names) => {
                return Ok(mounted?.group.drop_templates(names).await.map(|_| None)?);
            }
            GroupAction::SetAttribute { name, value } => {
                return Ok(mounted?.group.set_attribute(name, value).await.map(|()| None)?);
            }
            GroupAction::Check { .. } => return check(&mounted?).map(|()| None),
        };
        Ok(Some(format!("{}: {told}.", group.to_uppercase())))
    }

    /// What a change of the disks of a group would do, and how long it would take. Changes nothing.
    ///
    /// # Errors
    /// Those of the change itself.
    #[boxed]
    pub async fn explain_work(&self, work: &WorkRequest) -> Result<Explained> {
        disks::explain(&self.database, &self.waiting, work).await
    }

    fn groups(&self) -> &Groups {
        self.database.storage().groups()
    }
}
