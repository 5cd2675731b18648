//! `cellar asm`: disk groups and their files, in ASMCMD's words.

mod cp;
mod files;
mod groups;
mod iostat;
mod md;
mod migrate;
mod offline;
mod prompt;
mod scrub;
mod statements;
mod table;
mod templates;
mod work;

use std::path::{Path, PathBuf};

use cellar_diskgroup::TemplateChange;
use cellar_instance::{Error, NextStep};
use cellar_storage::Mounted;
use cellar_storage::split_group_path;
use clap::{CommandFactory, Parser};

use super::database::{Database, Place};
use super::dir;
use super::fault::Fault;
use super::output::{self, Format};
pub use work::left_running;

/// Arguments of `asm`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Commands: lsdg lsdsk lsct lsof lsattr setattr lstmpl mktmpl chtmpl rmtmpl lsop
          mkdg dropdg mount umount rebal offline online replace scrub migrate
          iostat ls du find mkdir rm cp md_backup md_restore
Each has its own help: cellar asm ls --help. Without a command there is a prompt, ASMCMD>.

Examples:
  cellar asm cellar-demo lsdg                    room, and what may fail
  cellar asm cellar-demo ls -l '+DATA/*'
  cellar asm cellar-demo cp trips.csv +DATA/in/trips.csv
  cellar asm cellar-demo iostat --sizes -G DATA"
)]
pub struct Args {
    /// For people or for a program.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The database ($CELLAR_DIR if it is left out), a command, and what it needs.
    #[arg(value_name = "[DIR] COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

impl Args {
    /// The command's directory, and whether it is read-only: a read-only command takes no disk out
    /// of service and does not finish interrupted work.
    ///
    /// # Errors
    /// Wrong usage, including the words after the directory, before anything is touched.
    pub fn target(&self) -> Result<(PathBuf, bool), Fault> {
        if let Some(given) = self.prompts() {
            return Ok((dir::resolve(given)?, false));
        }
        let (given, asm) = parse(&self.words)?;
        let only_looks = match &asm.command {
            // A command that waits for a rebalance must let it continue.
            Command::Lsdsk(args) => args.wait.is_none(),
            Command::Lsdg(_)
            | Command::Lsattr(_)
            | Command::Lsct(_)
            | Command::Lsof(_)
            | Command::Lstmpl(_)
            | Command::Ls(_)
            | Command::Du(_)
            | Command::Find(_) => true,
            Command::Migrate(args) => args.only_looks(),
            Command::MdBackup(_) => true,
            Command::Lsop(_)
            | Command::Rebal(_)
            | Command::Offline(_)
            | Command::Online(_)
            | Command::Replace(_)
            | Command::Scrub(_)
            | Command::Mktmpl(_)
            | Command::Chtmpl(_)
            | Command::Rmtmpl(_)
            | Command::Mkdg(_)
            | Command::Dropdg(_)
            | Command::Mount(_)
            | Command::Umount(_)
            | Command::Setattr(_)
            | Command::Iostat(_)
            | Command::Mkdir(_)
            | Command::Rm(_)
            | Command::MdRestore(_)
            | Command::Cp(_) => false,
        };
        Ok((dir::resolve(given)?, only_looks))
    }

    /// Whether commands are to be typed, as none was given; and the directory, if given.
    fn prompts(&self) -> Option<Option<PathBuf>> {
        let default = has_default();
        let (given, rest) = split(&self.words, default, &|word| Path::new(word).is_dir());
        (rest.is_empty() && (given.is_some() || default)).then_some(given)
    }

    /// Whether commands are to be typed.
    pub fn wants_prompt(&self) -> bool {
        self.prompts().is_some()
    }
}

fn has_default() -> bool {
    std::env::var_os("CELLAR_DIR").is_some_and(|dir| !dir.is_empty())
}

/// The words behind the directory.
#[derive(Debug, Parser)]
#[command(
    name = "cellar asm",
    bin_name = "cellar asm [DIR]",
    about = "Disk groups and their files, in ASMCMD's words",
    after_help = "Paths in a group begin with +: +DATA/dir/file. * and % stand for any letters."
)]
struct Asm {
    #[command(subcommand)]
    command: Command,
    /// For people or a program.
    #[arg(long, value_enum, global = true)]
    format: Option<Format>,
    /// Omit the column headings.
    #[arg(long, global = true)]
    suppressheader: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Disk groups: state, redundancy, room, and what can be written
    #[command(after_help = "Examples:\n  cellar asm lsdg\n  cellar asm lsdg 'D*'")]
    Lsdg(groups::Lsdg),
    /// Disks of groups
    #[command(after_help = "Examples:\n  cellar asm lsdsk -k\n  cellar asm lsdsk -p -G DATA
  cellar asm lsdsk --wait DATA_0003     until it may be unplugged")]
    Lsdsk(groups::Lsdsk),
    /// Attributes of groups
    #[command(after_help = "Examples:\n  cellar asm lsattr -l -G DATA\n  cellar asm lsattr -m")]
    Lsattr(groups::Lsattr),
    /// Sets an attribute of a group
    #[command(after_help = "Example:\n  cellar asm setattr -G DATA disk_repair_time 4.5h")]
    Setattr(statements::Setattr),
    /// Who works with the groups now
    #[command(after_help = "Example:\n  cellar asm lsct")]
    Lsct(statements::Lsct),
    /// Files that are in use now
    #[command(after_help = "Examples:\n  cellar asm lsof\n  cellar asm lsof -G DATA")]
    Lsof(statements::Lsof),
    /// Makes a disk group
    #[command(after_help = "Examples:\n  cellar asm mkdg fra /dev/disk/by-id/A /dev/disk/by-id/B
  cellar asm mkdg fra /srv/f1 /srv/f2 --size 2G      files that are made")]
    Mkdg(statements::Mkdg),
    /// Drops a disk group; with -r also one with files in it
    #[command(after_help = "Example:\n  cellar asm dropdg -r fra")]
    Dropdg(statements::Dropdg),
    /// Mounts groups
    #[command(after_help = "Examples:\n  cellar asm mount fra\n  cellar asm mount -a")]
    Mount(statements::Mount),
    /// Dismounts groups
    #[command(after_help = "Example:\n  cellar asm umount fra")]
    Umount(statements::Mount),
    /// Templates: what new files are, by type or by their template
    #[command(after_help = "Examples:\n  cellar asm lstmpl -l\n  cellar asm lstmpl -G DATA 'D*'")]
    Lstmpl(templates::Lstmpl),
    /// Makes a template
    #[command(after_help = "Examples:
  cellar asm mktmpl -G DATA --redundancy unprotected --checksums off scratch
  cellar asm cp big.bin '+DATA(scratch)/big.bin'      a file that it is for")]
    Mktmpl(templates::Settmpl),
    /// Changes a template; existing files stay as they are
    #[command(after_help = "Example:\n  cellar asm chtmpl -G DATA --redundancy high datafile")]
    Chtmpl(templates::Settmpl),
    /// Removes a template
    #[command(after_help = "Example:\n  cellar asm rmtmpl -G DATA scratch")]
    Rmtmpl(templates::Rmtmpl),
    /// Long work under way
    #[command(after_help = "Example:\n  cellar asm lsop")]
    Lsop(work::Lsop),
    /// Starts or stops a rebalance, or changes its power
    #[command(after_help = "Examples:\n  cellar asm rebal --power 8 --wait
  cellar asm rebal DATA --power 0       stops it")]
    Rebal(work::Rebal),
    /// Takes disks out for a while; changes are tracked for resync
    #[command(after_help = "Examples:\n  cellar asm offline -D DATA_0002
  cellar asm offline -G DATA -F SHELF1 -t 30m")]
    Offline(offline::Offline),
    /// Brings offline disks back
    #[command(after_help = "Examples:\n  cellar asm online -a --wait
  cellar asm online -D DATA_0002 --power 64")]
    Online(offline::Online),
    /// Replaces a disk that is gone with another
    #[command(after_help = "Examples:\n  cellar asm replace DATA_0002 /dev/disk/by-id/NEW
  cellar asm replace DATA_0002 mydb/disks/disk5 --wait")]
    Replace(offline::Replace),
    /// Reads every copy, compares and mends; monthly by itself
    #[command(after_help = "Examples:\n  cellar asm scrub --repair --wait
  cellar asm scrub DATA --power max --wait\n  cellar asm scrub DATA --stop")]
    Scrub(scrub::Scrub),
    /// Moves data from some disks to others; estimates it first
    #[command(
        after_help = "Examples:\n  cellar asm migrate --from OLD --to '/dev/disk/by-id/NEW*' \
                      --within 24h --plan\n  cellar asm migrate --from 'OLD*' --to a,b,c \
                      --disk-size 100G"
    )]
    Migrate(migrate::Migrate),
    /// What the disks did, once or every so many seconds
    #[command(after_help = "Examples:\n  cellar asm iostat -t -e\n  cellar asm iostat --sizes 5")]
    Iostat(iostat::Iostat),
    /// Files and directories
    #[command(after_help = "Examples:\n  cellar asm ls\n  cellar asm ls -ls '+DATA/*.parquet'")]
    Ls(files::Ls),
    /// Space used by files
    #[command(after_help = "Examples:\n  cellar asm du\n  cellar asm du +DATA/cellar")]
    Du(files::Du),
    /// Files by name, below a directory
    #[command(after_help = "Examples:\n  cellar asm find +DATA '*.parquet'
  cellar asm find --type controlfile + '*'")]
    Find(files::Find),
    /// Makes directories
    #[command(after_help = "Example:\n  cellar asm mkdir +DATA/in")]
    Mkdir(files::Mkdir),
    /// Deletes files; with -r directories and what is in them
    #[command(
        after_help = "Examples:\n  cellar asm rm '+DATA/in/*.csv'\n  cellar asm rm -r +DATA/in"
    )]
    Rm(files::Rm),
    /// Copies a file into, out of or within groups, whole or not at all
    #[command(after_help = "Examples:\n  cellar asm cp trips.csv +DATA/in/
  cellar asm cp +DATA/in/trips.csv /tmp\n  cellar asm cp +DATA/a +DATA/b")]
    Cp(cp::Cp),
    /// Saves group definitions to a file: disks, attributes, templates
    #[command(name = "md_backup", after_help = "Example:\n  cellar asm md_backup groups.json")]
    MdBackup(md::MdBackup),
    /// Recreates groups from such a file, without their files
    #[command(
        name = "md_restore",
        after_help = "Examples:\n  cellar asm md_restore groups.json --full -G FRA\n  cellar asm \
                      md_restore groups.json --nodg\n  cellar asm md_restore groups.json --newdg \
                      FRA:FRA2"
    )]
    MdRestore(md::MdRestore),
}

/// How results are shown.
#[derive(Clone, Copy, Debug)]
struct Show {
    format: Format,
    header: bool,
}

/// Runs `asm`.
///
/// # Errors
/// Wrong usage before anything is touched; then a numbered error.
pub async fn run(args: Args, database: &Database, place: &Place) -> Result<(), Fault> {
    if args.wants_prompt() {
        return prompt::run(args.format, database, place).await;
    }
    let (_, asm) = parse(&args.words)?;
    one(asm, args.format, &args.words.join(" "), database, place).await
}

/// Typed commands, for a database that another process has open; returns the exit code.
///
/// # Errors
/// The terminal cannot be read, or the other process went away.
pub fn run_there(
    args: &Args,
    client: &mut cellar_instance::directory::Client,
) -> Result<u8, Fault> {
    prompt::run_there(args.format, client)
}

/// Runs one command, typed as `statement`.
async fn one(
    asm: Asm,
    format: Option<Format>,
    statement: &str,
    database: &Database,
    place: &Place,
) -> Result<(), Fault> {
    let format = asm.format.or(format).unwrap_or_default();
    let show = Show { format, header: !asm.suppressheader };
    let _executing = database.session.execute(statement);
    match asm.command {
        Command::Lsdg(args) => groups::lsdg(&args, database, show),
        Command::Lsdsk(args) => match args.wait.clone() {
            Some(disk) => work::wait_former(&args, &disk, database, place, show).await,
            None => groups::lsdsk(&args, database, show),
        },
        Command::Lsattr(args) => groups::lsattr(&args, database, show),
        Command::Setattr(args) => statements::setattr(&args, database).await,
        Command::Lsct(args) => statements::lsct(&args, database, show),
        Command::Lsof(args) => statements::lsof(&args, database, show),
        Command::Mkdg(args) => statements::mkdg(&args, database).await,
        Command::Dropdg(args) => statements::dropdg(&args, database).await,
        Command::Mount(args) => statements::mount(&args, database).await,
        Command::Umount(args) => statements::umount(&args, database).await,
        Command::Lstmpl(args) => templates::lstmpl(&args, database, show),
        Command::Mktmpl(args) => templates::set(TemplateChange::Add, &args, database).await,
        Command::Chtmpl(args) => templates::set(TemplateChange::Modify, &args, database).await,
        Command::Rmtmpl(args) => templates::rmtmpl(&args, database).await,
        Command::Lsop(_) => work::lsop(database, place, show).await,
        Command::Rebal(args) => work::rebal(&args, database, place, show).await,
        Command::Offline(args) => offline::offline(&args, database, show).await,
        Command::Online(args) => offline::online(&args, database, place, show).await,
        Command::Replace(args) => offline::replace(&args, database, place, show).await,
        Command::Scrub(args) => scrub::scrub(&args, database, place, show).await,
        Command::Migrate(args) => migrate::run(&args, database, place, show).await,
        Command::Iostat(args) => iostat::run(&args, database, place, show).await,
        Command::Ls(args) => files::ls(&args, database, show),
        Command::Du(args) => files::du(&args, database, show),
        Command::Find(args) => files::find(&args, database, show),
        Command::Mkdir(args) => files::mkdir(&args, database).await,
        Command::Rm(args) => files::rm(&args, database).await,
        Command::Cp(args) => cp::run(&args, database, place, show).await,
        Command::MdBackup(args) => md::backup(&args, database, show),
        Command::MdRestore(args) => md::restore(&args, database).await,
    }
}

/// The words after the directory.
fn parsed(words: &[String]) -> Result<Asm, clap::Error> {
    Asm::try_parse_from(std::iter::once("cellar asm").chain(words.iter().map(String::as_str)))
}

fn parse(words: &[String]) -> Result<(Option<PathBuf>, Asm), Fault> {
    let (given, rest) = split(words, has_default(), &|word| Path::new(word).is_dir());
    match parsed(rest) {
        Ok(asm) => Ok((given, asm)),
        // Help was requested: it is printed on stdout, and there is nothing more to do.
        Err(error) if !error.use_stderr() => {
            output::text(&output::fold_help(&error.to_string()))?;
            Err(Fault::Closed)
        }
        Err(error) => Err(Fault::usage(error.to_string().trim_end())),
    }
}

/// DIR may be omitted if the first word is a command, or if there is a `default` and the word is
/// not a directory: it is then reported as a misspelt command.
fn split<'a>(
    words: &'a [String],
    default: bool,
    is_dir: &dyn Fn(&str) -> bool,
) -> (Option<PathBuf>, &'a [String]) {
    let Some(first) = words.first() else {
        return (None, words);
    };
    let asm = Asm::command();
    let known = first == "help" || asm.get_subcommands().any(|c| c.get_name() == first);
    let is_word = !is_dir(first) && !first.contains('/');
    let lone = (words.len() == 1 || default) && is_word;
    match known || first.starts_with('-') || lone {
        true => (None, words),
        false => (Some(PathBuf::from(first)), &words[1..]),
    }
}

/// A place in a mounted group.
struct Spot {
    mounted: Mounted,
    /// From the root of the group, without slashes at its ends.
    path: String,
}

impl Spot {
    /// In the form that users write.
    fn name_of(&self, path: &str) -> String {
        format!("+{}/{path}", self.mounted.group.name())
    }
}

/// Reads `+GROUP/path`.
fn spot(database: &Database, text: &str) -> Result<Spot, Fault> {
    let Some((group, path)) = split_group_path(text) else {
        return Err(Fault::usage(format!(
            "\"{text}\" is no path in a disk group; write it as +DATA/{text}"
        )));
    };
    let mounted = database.inner.group(&group)?;
    Ok(Spot { mounted, path: path.trim_matches('/').to_owned() })
}

/// Groups by name, or all; wildcards allowed.
fn chosen(database: &Database, pattern: Option<&str>) -> Result<Vec<Mounted>, Fault> {
    let Some(pattern) = pattern else {
        return Ok(database.inner.groups());
    };
    let pattern = pattern.trim_start_matches('+').trim_end_matches('/').to_uppercase();
    if !is_pattern(&pattern) {
        return Ok(vec![database.inner.group(&pattern)?]);
    }
    let all = database.inner.groups().into_iter();
    let found: Vec<Mounted> = all.filter(|m| matches(&pattern, m.group.name())).collect();
    if found.is_empty() {
        let text = format!("no mounted disk group matches \"{pattern}\"");
        let hint = NextStep::from("see which there are: ").cellar("asm", "lsdg");
        return Err(Error::new(15001, text).hint(hint).into());
    }
    Ok(found)
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '%'])
}

fn matches(pattern: &str, name: &str) -> bool {
    cellar_diskgroup::names::matches(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn directory(text: &str) -> (Option<PathBuf>, usize) {
        let words = words(text);
        let (dir, rest) = split(&words, false, &|word| word == "demo");
        (dir, rest.len())
    }

    #[test]
    fn with_a_directory_set_a_word_that_is_none_is_a_command() {
        let of = |text: &str| {
            let words = words(text);
            let (dir, rest) = split(&words, true, &|word| word == "demo");
            (dir, rest.len())
        };
        assert_eq!(of("mkdgg x"), (None, 2));
        assert_eq!(of("demo mkdgg x"), (Some("demo".into()), 2));
        assert_eq!(of("./other lsdg"), (Some("./other".into()), 1));
    }

    #[test]
    fn a_command_as_the_first_word_means_no_directory() {
        assert_eq!(directory("lsdg D*"), (None, 2));
        assert_eq!(directory("demo lsdg"), (Some("demo".into()), 1));
        assert_eq!(directory("./ls ls -l"), (Some("./ls".into()), 2));
        assert_eq!(directory("--help"), (None, 1));
        assert_eq!(directory("lss"), (None, 1));
        assert_eq!(directory("demo"), (Some("demo".into()), 0));
        assert_eq!(directory(""), (None, 0));
    }

    #[test]
    fn a_wrong_word_is_wrong_usage_and_names_it() {
        let wrong = |text: &str| match parse(&words(text)) {
            Err(Fault::Usage(message)) => message.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(wrong("d lss").contains("lss"));
        assert!(wrong("d cp a").contains("TARGET"));
        assert!(wrong("d iostat 0").contains('0'));
        assert!(wrong("d find --type nothing + x").contains("controlfile"));
        let (_, asm) = parse(&words("d ls -l --format json")).unwrap();
        assert_eq!(asm.format, Some(Format::Json));
    }

    #[test]
    fn every_command_of_asm_has_an_example_of_80_columns() {
        Asm::command().debug_assert();
        for command in Asm::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("cellar asm"), "{} has no example", command.get_name());
            assert!(help.lines().all(|l| l.len() <= 80), "{help}");
        }
    }
}
