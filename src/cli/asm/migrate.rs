//! `cellar asm migrate`: moves the data of some disks to others online, after showing how long it takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cellar_diskgroup::space::plan::Lack;
use cellar_diskgroup::{DiskInfo, DiskStatus, Loss, Redundancy};
use cellar_instance::views::in_words;
use cellar_instance::{Error, NextStep};
use cellar_io::{EnvExt, shell};
use cellar_storage::Mounted;
use cellar_storage::groups::{Explained, Known, MARGIN, PowerChoice};
use cellar_storage::request::{ChangeRequest, DiskRequest, DiskTarget, DropRequest, Rebalance};
use cellar_storage::size::{show_bytes, show_count};
use serde_json::{Value, json};

use super::super::database::{Database, Place};
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::super::progress::{LOOK, Progress};
use super::super::size::parse_size;
use super::groups::is_meant;
use super::{Show, chosen, work};

/// Arguments of `migrate`.
#[derive(Debug, clap::Args)]
pub struct Migrate {
    /// Disks that are emptied: their names; * stands for any letters.
    #[arg(long, value_name = "DISK,..", value_delimiter = ',', required = true)]
    from: Vec<String>,
    /// Where the data goes: paths, * and ? for letters; or names of disks that stay.
    #[arg(long, value_name = "PATH,..", value_delimiter = ',', required = true)]
    to: Vec<String>,
    /// Do it at the lowest power that is done in time, or not at all: 90s, 45m, 24h, 2d.
    #[arg(long, value_name = "TIME", value_parser = within)]
    within: Option<Within>,
    /// Only show what it would do.
    #[arg(long)]
    plan: bool,
    /// 1 to 1024; the parameter asm_power_limit if it is left out.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    power: Option<u32>,
    /// How long both sides are probed, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    probe: Duration,
    /// Skip the probe: the time is unknown.
    #[arg(long, conflicts_with_all = ["probe", "within"])]
    no_probe: bool,
    /// Create missing paths as files of this size.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    disk_size: Option<u64>,
    /// The group, unless the disks determine it.
    #[arg(short = 'G', long)]
    group: Option<String>,
}

impl Migrate {
    /// Whether the command is read-only.
    pub fn only_looks(&self) -> bool {
        self.plan && self.no_probe
    }
}

/// A duration as typed.
#[derive(Clone, Debug)]
struct Within {
    text: String,
    time: Duration,
}

fn within(text: &str) -> Result<Within, String> {
    let wrong = || format!("\"{text}\" is no time; write it as 90s, 45m, 24h or 2d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let count: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let seconds = count * unit as f64;
    if !(0.001..=3.2e8).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Within { text: text.to_owned(), time: Duration::from_secs_f64(seconds) })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "allowed: 0.1 to 3600 seconds".to_owned())
}

/// The request, in terms of the group.
struct Wanted {
    mounted: Mounted,
    from: Vec<DiskInfo>,
    /// Disks of the group that were named as targets.
    stay: Vec<DiskInfo>,
    request: ChangeRequest,
}

/// Moves the data of some disks to others.
pub async fn run(
    args: &Migrate,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let wanted = wanted(args, database)?;
    let group = wanted.mounted.group.name().to_owned();
    let explained = match args.no_probe {
        true => database.inner.storage().groups().explain_work(&group, &wanted.request)?,
        false => {
            let time = in_words(args.probe);
            output::notice(&format!("Both sides are tried for {time}; nothing changes."));
            let quiet = show.format == Format::Json;
            let bar = Progress::new("tried", args.probe.as_millis() as u64, quiet);
            let since = || wanted.mounted.group.probing().map_or(0, |(since, _)| since.as_millis());
            let told = database.inner.storage().groups().estimate_work(
                &group,
                &wanted.request,
                args.probe,
            );
            bar.during(&place.env, || since() as u64, told).await?
        }
    };
    let given = database.inner.storage().groups().power(wanted.request.rebalance.power)?;
    let within = args.within.as_ref().map(|limit| limit.time);
    let verdict = explained.choose_power(given, args.power, within);
    let told =
        Proposal { args, database, wanted: &wanted, explained: &explained, verdict: &verdict };
    if verdict.power == 0 && !args.plan {
        return Err(Fault::usage(
            "the parameter asm_power_limit is 0, at which nothing moves: give a --power",
        ));
    }
    if args.plan || !verdict.is_good() {
        match show.format {
            Format::Json => output::json(&told.json())?,
            Format::Table => output::text(&told.words())?,
        }
        return if verdict.is_good() { Ok(()) } else { Err(Fault::NotWell) };
    }
    if show.format == Format::Table {
        output::text(&told.words())?;
    }
    carry_out(&told, place, show).await
}

/// Finds the disks in question.
fn wanted(args: &Migrate, database: &Database) -> Result<Wanted, Fault> {
    let mut of_group: Option<Mounted> = None;
    let mut from: Vec<DiskInfo> = Vec::new();
    let groups = chosen(database, args.group.as_deref())?;
    for pattern in &args.from {
        let found = groups.iter().flat_map(|mounted| {
            let disks = mounted.group.disks().into_iter();
            disks.filter(|d| is_meant(pattern, d)).map(move |d| (mounted, d))
        });
        let mut any = false;
        for (mounted, disk) in found {
            any = true;
            let other = of_group.get_or_insert_with(|| mounted.clone());
            if other.group.name() != mounted.group.name() {
                let text = format!(
                    "disks of two groups are meant: {} and {}",
                    other.group.name(),
                    mounted.group.name()
                );
                return Err(Error::new(15054, text).hint("name one of them with -G").into());
            }
            if from.iter().all(|known| known.number != disk.number) {
                from.push(disk);
            }
        }
        if !any {
            let text = format!("no disk of a mounted group is \"{pattern}\"");
            let hint = NextStep::from("see which there are: ").cellar("asm", "lsdsk -k");
            return Err(Error::new(15054, text).hint(hint).into());
        }
    }
    let mounted = of_group.ok_or_else(|| Fault::usage("--from names no disk"))?;
    let (mut stay, mut add): (Vec<DiskInfo>, Vec<DiskRequest>) = (Vec::new(), Vec::new());
    for target in &args.to {
        let members: Vec<DiskInfo> =
            mounted.group.disks().into_iter().filter(|d| is_meant(target, d)).collect();
        if members.is_empty() {
            let path = output::path(Path::new(target));
            let is_new = !target.contains(['*', '?']) && !path.exists();
            add.push(DiskRequest {
                path: path.to_string_lossy().into_owned(),
                name: None,
                failgroup: None,
                size: args.disk_size.filter(|_| is_new),
                force: false,
                erase: None,
            });
            continue;
        }
        let leaves = |d: &DiskInfo| from.iter().any(|f| f.number == d.number);
        if let Some(disk) = members.iter().find(|d| leaves(d)) {
            return Err(Fault::usage(format!(
                "{} is named in --from and in --to; name disks that differ",
                disk.name
            )));
        }
        check_stay(target, &members, database)?;
        stay.extend(members);
    }
    let drop = from
        .iter()
        .map(|disk| DropRequest { target: DiskTarget::Disk(disk.name.clone()), force: false });
    let request = ChangeRequest {
        add,
        drop: drop.collect(),
        rebalance: Rebalance::at(args.power),
        ..ChangeRequest::default()
    };
    Ok(Wanted { mounted, from, stay, request })
}

/// Refuses targets that are members and cannot take anything, and patterns that match both disks of the group
/// and others.
fn check_stay(target: &str, members: &[DiskInfo], database: &Database) -> Result<(), Fault> {
    let on_disk = match target.contains(['*', '?']) {
        true => database.inner.storage().finder().paths_of(target),
        false => Vec::new(),
    };
    let is_member = |path: &PathBuf| {
        members.iter().any(|d| d.path.as_deref().map(Path::new) == Some(path.as_path()))
    };
    if let Some(new) = on_disk.iter().find(|path| !is_member(path)) {
        return Err(Fault::usage(format!(
            "\"{target}\" names {}, a disk of the group, and {}, which is not: name them separately",
            members[0].name,
            new.display()
        )));
    }
    if let Some(gone) = members.iter().find(|d| d.status != DiskStatus::Online) {
        return Err(Fault::usage(format!(
            "{} takes nothing: it is offline or leaves; name other disks in --to",
            gone.name
        )));
    }
    Ok(())
}

/// What to report of a migration.
struct Proposal<'a> {
    args: &'a Migrate,
    database: &'a Database,
    wanted: &'a Wanted,
    explained: &'a Explained,
    verdict: &'a PowerChoice,
}

/// `OLD`, `A and B`, `the 15`.
fn names(all: &[String]) -> String {
    joined(all, "and")
}

fn either(all: &[String]) -> String {
    joined(all, "or")
}

fn joined(all: &[String], word: &str) -> String {
    match all {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [one, two] => format!("{one} {word} {two}"),
        more => format!("the {}", more.len()),
    }
}

/// `1 disk of 1.2 TB`, `15 of 100 GB`, `3 of 40 GB together`.
fn sizes(sizes: &[u64], noun: bool) -> String {
    let noun = match (noun, sizes.len()) {
        (false, _) => "",
        (true, 1) => " disk",
        (true, _) => " disks",
    };
    let first = sizes.first().copied().unwrap_or(0);
    match sizes.iter().all(|size| *size == first) {
        true => format!("{}{noun} of {}", sizes.len(), show_bytes(first)),
        false => {
            format!("{}{noun} of {} together", sizes.len(), show_bytes(sizes.iter().sum()))
        }
    }
}

impl Proposal<'_> {
    /// Names of the disks that join, and their sizes.
    fn joining(&self) -> Vec<(String, u64)> {
        let plan = &self.explained.work.plan;
        let is_new = |no: &u16| self.explained.disks.get(no).is_some_and(|d| d.1 == "ADDING");
        let new = plan.disks.iter().filter(|d| is_new(&d.disk.0));
        new.map(|d| {
            let name = self.explained.disks[&d.disk.0].0.clone();
            (name, d.capacity * self.explained.work.au_size)
        })
        .collect()
    }

    /// The disks named as targets: those that join, then those that stay.
    fn targets(&self) -> Vec<(String, u64)> {
        let mut all = self.joining();
        all.extend(self.wanted.stay.iter().map(|d| (d.name.clone(), d.bytes)));
        all
    }

    fn words(&self) -> String {
        let mut text = output::labelled("Move", &self.movement());
        text.push_str(&output::labelled("Rate", &self.rate()));
        let nothing = self.explained.work.plan.moves.is_empty();
        if !self.explained.times().is_empty() && !nothing {
            text.push_str(&output::labelled("Time", &self.times()));
        }
        if let Some(limit) = &self.args.within {
            text.push_str(&output::labelled(&limit.text, &self.in_time(limit)));
        }
        if self.verdict.lacking > 0 {
            return text;
        }
        text.push_str(&output::labelled("Steps", &self.steps()));
        text.push_str(&output::labelled("Risk", &self.risk()));
        if self.args.plan && self.verdict.is_good() {
            let dir = shell::path(self.database.inner.directory().path());
            for disk in &self.wanted.from {
                let words = format!(
                    "not before this says FORMER: cellar asm {dir} lsdsk --wait {}",
                    disk.name
                );
                text.push_str(&output::labelled("Unplug", &words));
            }
        }
        text
    }

    fn movement(&self) -> String {
        let bytes = self.explained.bytes() + self.verdict.lacking;
        let aus = bytes / self.explained.work.au_size;
        let from: Vec<u64> = self.wanted.from.iter().map(|d| d.bytes).collect();
        let to: Vec<u64> = self.targets().iter().map(|(_, bytes)| *bytes).collect();
        let fits = match self.verdict.lacking {
            0 => "fits".to_owned(),
            bytes => {
                let lacks = self.explained.work.plan.unplaced.iter();
                let groups = lacks.filter(|u| u.lack == Lack::FailGroups).count() > 0;
                let why = if groups { "too few failure groups" } else { "no room" };
                format!("does not fit: {why} for {} of it; name more disks", show_bytes(bytes))
            }
        };
        let (from, to) = (sizes(&from, true), sizes(&to, false));
        format!("{} ({} AU) from {from} to {to}: {fits}", show_bytes(bytes), show_count(aus))
    }

    fn rate(&self) -> String {
        let rates = &self.explained.rates;
        let from: Vec<String> = self.wanted.from.iter().map(|d| d.name.clone()).collect();
        let to: Vec<String> = self.targets().into_iter().map(|(name, _)| name).collect();
        match self.explained.known {
            Known::Probed => {
                let verb = |names: &[String], one: &str| match names.len() {
                    1 => format!("{one}s"),
                    _ => one.to_owned(),
                };
                format!(
                    "measured for {}: {} {} {}/s, {} {} {}/s",
                    in_words(rates.took),
                    names(&from),
                    verb(&from, "read"),
                    show_bytes(rates.reading),
                    names(&to),
                    verb(&to, "write"),
                    show_bytes(rates.writing)
                )
            }
            Known::Moved => "as moved since the database was opened".to_owned(),
            Known::Unknown(why) => format!("not measured: {why}"),
        }
    }

    fn times(&self) -> String {
        let times = self.explained.times();
        let known = times.iter().filter_map(|(time, rate)| {
            let words = in_words(time.time?);
            Some(format!("{words} at power {} ({}/s)", time.power, show_bytes(*rate)))
        });
        known.collect::<Vec<_>>().join(", ")
    }

    fn in_time(&self, limit: &Within) -> String {
        let needed = self.explained.bytes() as f64 / limit.time.as_secs_f64();
        let needs = format!("needs {}/s.", show_bytes(needed.ceil() as u64));
        let PowerChoice { power, time, in_time, .. } = self.verdict;
        match (time, in_time) {
            (Some(time), Some(true)) => {
                let spare = limit.time.saturating_sub(*time);
                format!("{needs} Yes, at power {power}, with {} to spare", in_words(spare))
            }
            (Some(time), _) => format!(
                "{needs} No: at power {power} it takes {}. Faster disks, or more of them; or \
                 --within {}s",
                in_words(*time),
                (time.as_secs_f64() * MARGIN).ceil() as u64
            ),
            (None, _) => format!("{needs} Whether that is so is not known"),
        }
    }

    fn steps(&self) -> String {
        let plan = &self.explained.work.plan;
        let once = match plan.moves.len() as u64 == plan.minimum {
            true => "every AU moved once",
            false => "the fewest AU moved",
        };
        let to = self.targets();
        let others = plan.disks.iter().filter(|d| d.incoming > 0).count();
        let spread = match others > to.len() {
            true => format!("; to be even, {others} disks take some of it"),
            false => String::new(),
        };
        format!(
            "one statement, one rebalance at power {}, {once}, online{spread}",
            self.verdict.power
        )
    }

    fn risk(&self) -> String {
        let from: Vec<String> = self.wanted.from.iter().map(|d| d.name.clone()).collect();
        let losses = &self.explained.losses;
        if self.explained.info.redundancy == Redundancy::External {
            let one = if from.len() > 2 { "one of " } else { "" };
            let from = either(&from);
            return format!(
                "external redundancy, one copy: {one}{from} failing on the way loses data"
            );
        }
        let of = |wanted: &dyn Fn(&Loss) -> bool| -> Vec<String> {
            losses.iter().filter(|l| wanted(l)).map(|l| l.failgroup.clone()).collect()
        };
        let (critical, single) = (of(&|l| l.stops || (l.data && !l.single)), of(&|l| l.single));
        let copies = self.explained.info.redundancy.copies();
        let failing = either;
        match (critical.is_empty(), single.is_empty()) {
            (true, true) => {
                format!("{copies} copies: any one disk may fail on the way, nothing is lost")
            }
            (true, false) => format!(
                "{copies} copies, of some files one: {} failing on the way loses those",
                failing(&single)
            ),
            (false, _) => format!(
                "{copies} copies, not all of them here: {} failing on the way loses data",
                failing(&critical)
            ),
        }
    }

    fn json(&self) -> Value {
        let times: Vec<Value> = self
            .explained
            .times()
            .iter()
            .map(|(time, rate)| {
                let seconds = time.time.map(|time| time.as_secs_f64());
                json!({"power": time.power, "seconds": seconds, "bytes_per_second": rate})
            })
            .collect();
        let rates = &self.explained.rates;
        let known = match self.explained.known {
            Known::Probed => json!("probe"),
            Known::Moved => json!("moves"),
            Known::Unknown(_) => Value::Null,
        };
        let rate = |bytes: u64| (bytes > 0).then_some(bytes);
        json!({
            "group": self.wanted.mounted.group.name(),
            "from": self.wanted.from.iter().map(|d| d.name.clone()).collect::<Vec<_>>(),
            "to": self.targets().into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "aus": self.explained.work.plan.moves.len(),
            "bytes": self.explained.bytes(),
            "fits": self.verdict.lacking == 0,
            "lacking_bytes": self.verdict.lacking,
            "measured": known,
            "probe_seconds": rates.took.as_secs_f64(),
            "read_bytes_per_second": rate(rates.reading),
            "write_bytes_per_second": rate(rates.writing),
            "times": times,
            "within_seconds": self.args.within.as_ref().map(|w| w.time.as_secs_f64()),
            "in_time": self.verdict.in_time,
            "power": self.verdict.power,
            "estimated_seconds": self.verdict.time.map(|time| time.as_secs_f64()),
            "risk": self.risk(),
        })
    }
}

/// Migrates, and waits until the old disks may be unplugged.
async fn carry_out(told: &Proposal<'_>, place: &Place, show: Show) -> Result<(), Fault> {
    let (database, mounted) = (told.database, &told.wanted.mounted);
    let quiet = show.format == Format::Json;
    let rebalance = Rebalance::at(Some(told.verdict.power));
    let request = ChangeRequest { rebalance, ..told.wanted.request.clone() };
    let new: u64 = request.add.iter().filter_map(|disk| disk.size).sum();
    let making = Progress::new("pre-written", new.max(1), quiet || new == 0);
    let made = |done: u64, _: u64| making.set(done);
    let start = place.env.now();
    let changed =
        database.inner.storage().groups().alter_disks(mounted.group.name(), &request, &made).await;
    making.finish();
    let aus = changed?.aus;
    let moving = place.env.now();
    work::wait_rebalanced(mounted, place, show, aus).await?;
    let took = place.env.now().since(moving);
    let mut former: Vec<(String, String)> = Vec::new();
    for disk in &told.wanted.from {
        // Somebody may have stopped or cancelled it: then the disk still has its data.
        let still = || mounted.group.disks().into_iter().find(|d| d.number == disk.number);
        while let Some(now) = still().filter(|now| now.name == disk.name) {
            work::check_leaving(mounted, &disk.name, now.status).await?;
            place.env.sleep(LOOK).await;
        }
        let path = disk.path.clone().unwrap_or_default();
        work::wait_label(database, place, &disk.name, &path).await?;
        former.push((disk.name.clone(), path));
    }
    if quiet {
        let mut all = told.json();
        all["seconds"] = json!(took.as_secs_f64());
        let limit = told.args.within.as_ref();
        all["late"] = json!(limit.map(|limit| took > limit.time));
        all["all_seconds"] = json!(place.env.now().since(start).as_secs_f64());
        all["former"] =
            former.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
        return output::json(&all);
    }
    let estimated = told.verdict.time.filter(|_| told.explained.known == Known::Probed);
    let estimated = estimated.map_or(String::new(), |t| format!(" (estimated {})", in_words(t)));
    let bytes = aus * told.explained.work.au_size;
    let mut words = format!("{} moved in {}{estimated}", show_bytes(bytes), in_words(took));
    if let Some(limit) = told.args.within.as_ref().filter(|limit| took > limit.time) {
        words.push_str(&format!(": {} late", in_words(took - limit.time)));
    }
    let mut text = output::labelled("Done", &words);
    for (name, path) in former {
        let words = format!("{name} says FORMER and may be unplugged: {path}");
        text.push_str(&output::labelled("Unplug", &words));
    }
    output::text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        let seconds = |text: &str| within(text).map(|w| w.time.as_secs_f64()).ok();
        assert_eq!(seconds("90s"), Some(90.0));
        assert_eq!(seconds("45m"), Some(2700.0));
        assert_eq!(seconds("24h"), Some(86_400.0));
        assert_eq!(seconds("1.5h"), Some(5400.0));
        assert_eq!(seconds("2d"), Some(172_800.0));
        for wrong in ["", "24", "h", "-1h", "24x", "1h30", "0s", "1e99d", "NaNh"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn disks_are_told_by_number_and_size() {
        assert_eq!(sizes(&[1_200_000_000_000], true), "1 disk of 1.2 TB");
        assert_eq!(sizes(&[100_000_000_000; 15], false), "15 of 100 GB");
        assert_eq!(sizes(&[1_000_000, 2_000_000], true), "2 disks of 3.0 MB together");
        let all = ["A", "B", "C"].map(str::to_owned);
        assert_eq!([names(&all[..1]), names(&all[..2]), names(&all)], ["A", "A and B", "the 3"]);
    }
}
