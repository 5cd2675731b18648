//! `cellar status`: the state of the groups, the next action, and the risks.

use std::path::PathBuf;
use std::time::Duration;

use cellar_instance::health::{self, GroupHealth};
use cellar_storage::size::show_room;

use super::database::{Database, Place};
use super::fault::{Fault, followable};
use super::output::{self, Format};

/// Arguments of `status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar status cellar-demo
  cellar status cellar-demo --format json && echo well
  cellar status cellar-demo --alert ./tell-me.sh
With --alert it stays, and runs the command whenever something has changed,
also while it did not run: with CELLAR_GROUP, CELLAR_STATE, CELLAR_WAS,
CELLAR_WORDS, CELLAR_ACTION, CELLAR_SAFE and CELLAR_DIR set, and all of it as
JSON on standard input. With --once, as from cron, it looks once.
Exit code 0: every group is whole and can be written. 1: something needs a
look, and \"action\" says what to do.")]
pub struct Args {
    /// The database; $CELLAR_DIR if it is left out.
    pub dir: Option<PathBuf>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The same as --format json.
    #[arg(long)]
    pub json: bool,
    /// Stay, and run this command at every change of state.
    #[arg(long, value_name = "CMD")]
    pub alert: Option<String>,
    /// How often --alert polls.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "alert",
        value_parser = super::alert::every)]
    pub every: Duration,
    /// With --alert: poll once, and exit as status does.
    #[arg(long, requires = "alert")]
    pub once: bool,
}

impl Args {
    fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }
}

/// Runs `status`.
///
/// # Errors
/// [`Fault::NotWell`] if a group needs attention.
pub async fn run(args: &Args, database: &Database, _place: &Place) -> Result<(), Fault> {
    let all = database.inner.health().await;
    let well = all.iter().all(GroupHealth::is_well);
    tell(args, all)?;
    #[cfg(feature = "sql")]
    broken_tables(database).await?;
    if well { Ok(()) } else { Err(Fault::NotWell) }
}

/// Reports tables over files in place that cannot be used now, and why.
#[cfg(feature = "sql")]
async fn broken_tables(database: &Database) -> Result<(), Fault> {
    if database.host().tables().is_empty() {
        return Ok(());
    }
    for (table, error) in database.engine().await?.check_tables().await {
        let why = error.stack().last().map_or("", |entry| entry.message.as_str());
        output::notice(&format!("Notice: table {table} cannot be used now: {why}"));
    }
    Ok(())
}

fn tell(args: &Args, mut all: Vec<GroupHealth>) -> Result<(), Fault> {
    all.iter_mut().for_each(|status| status.action = status.action.take().map(followable));
    if args.is_json() {
        return output::json(&all);
    }
    all.iter().try_for_each(|status| output::text(&lines(status)))
}

/// Reports that the database cannot be opened; returns the fault that is left to report.
pub fn not_open(args: &Args, fault: Fault) -> Fault {
    let status = match &fault {
        Fault::Refused(error) => health::of_unmounted(error),
        Fault::Failed(message) => GroupHealth {
            state: "NOT OPEN",
            words: fault.first_line(),
            error: Some(message.to_string()),
            ..GroupHealth::default()
        },
        _ => return fault,
    };
    if !args.is_json() && status.group.is_none() {
        return fault;
    }
    match tell(args, vec![status]) {
        Ok(()) => Fault::NotWell,
        Err(closed) => closed,
    }
}

/// A status for people, 80 columns.
pub fn lines(status: &GroupHealth) -> String {
    let head = format!("{}  {}", status.state, status.words);
    let name = status.group.as_deref().unwrap_or("-");
    let mut text = output::labelled(name, &head);
    let mut put = |label: &str, words: &str| text.push_str(&output::labelled(label, words));
    put("action", &status.action.as_ref().map_or("none".to_owned(), ToString::to_string));
    if status.error.is_some() {
        let numbers = status.error_numbers.iter().map(|number| format!("CELLAR-{number:05}"));
        put("error", &numbers.collect::<Vec<_>>().join(", "));
        return text;
    }
    put("work", status.work.as_deref().unwrap_or("none"));
    put("safe", &status.safe);
    let room = show_room(status.writable_bytes >> 20);
    put("room", &format!("{room} can be written now"));
    if let Some(redo) = &status.redo {
        put("redo", redo);
    }
    health::spare_words(status).iter().for_each(|words| put("spares", words));
    if !status.checked_words.is_empty() {
        put("checked", &status.checked_words);
    }
    text
}

#[cfg(test)]
mod tests {
    use cellar_instance::Error;

    use super::*;

    #[test]
    fn long_words_break_at_80_columns() {
        let status = GroupHealth {
            group: Some("DATA".into()),
            state: "DEGRADED",
            words: "1 of 4 disks missing; every byte still has a copy".into(),
            action: Some("word ".repeat(40).into()),
            safe: "x".into(),
            writable_bytes: 1 << 30,
            ..GroupHealth::default()
        };
        let text = lines(&status);
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
        assert!(text.starts_with("DATA     DEGRADED  1 of 4"), "{text}");
        assert!(text.ends_with("room     1 024 MB can be written now\n"), "{text}");
    }

    #[test]
    fn a_group_that_is_not_there_is_told_with_its_cause_and_the_next_step() {
        let why = "without A it is not whole".to_owned();
        let error = cellar_diskgroup::Error::Incomplete { group: "DATA".to_owned(), why };
        let error = Error::from(error)
            .under(15017, "disk group \"DATA\" cannot be mounted")
            .of_group("DATA")
            .hint("bring A back");
        let status = health::of_unmounted(&error);
        assert_eq!((status.group.as_deref(), status.state), (Some("DATA"), "NOT MOUNTED"));
        assert_eq!(status.action, Some("bring A back".into()));
        let text = lines(&status);
        assert!(text.starts_with("DATA     NOT MOUNTED  without A it is not whole\n"), "{text}");
        assert!(text.ends_with("error    CELLAR-15017, CELLAR-15040\n"), "{text}");
        assert!(!status.is_well());
    }
}
