//! Statements are read, or refused with the position and the words that would do.

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{Protection, Redundancy, ScrubPower, TemplateWords};
use cellar_instance::administration::Command;
use cellar_instance::parameters::Scope;
use cellar_sql::parse;
use cellar_sql::statement::Statement;
use cellar_storage::request::{
    ChangeRequest, Contents, DiskRequest, DiskTarget, DropRequest, GroupAction, GroupRequest,
    GroupSelection, NewLogfile, OfflineRequest, OnlineRequest, Rebalance, RedoAction,
    ReplaceRequest, ResizeRequest, ScrubRequest, ScrubTarget,
};
use proptest::prelude::*;

fn command(sql: &str) -> Command {
    match parse(sql) {
        Ok(Statement::Command(command)) => command,
        other => panic!("{sql}: {other:?}"),
    }
}

fn refusal(sql: &str) -> String {
    match parse(sql) {
        Err(error) => error.to_string(),
        Ok(statement) => panic!("{sql} was read as {statement:?}"),
    }
}

fn disk(path: &str) -> DiskRequest {
    DiskRequest {
        path: path.into(),
        name: None,
        failgroup: None,
        size: None,
        force: false,
        erase: None,
    }
}

#[test]
fn create_diskgroup_takes_everything_the_grammar_has() {
    let sql = "create diskgroup data2 high redundancy
        failgroup fg1 disk '/d/a' name a1 size 2G force, '/d/b' noforce
        failgroup fg2 disk '/dev/sdx' erase 'SN 1'  -- a comment
        disk '/d/c'
        attribute 'au_size' = '4M', 'Sector_Size'='4096';";
    let expected = GroupRequest {
        name: "DATA2".into(),
        redundancy: Redundancy::High,
        disks: vec![
            DiskRequest {
                name: Some("A1".into()),
                failgroup: Some("FG1".into()),
                size: Some(2 << 30),
                force: true,
                ..disk("/d/a")
            },
            DiskRequest { failgroup: Some("FG1".into()), ..disk("/d/b") },
            DiskRequest {
                failgroup: Some("FG2".into()),
                erase: Some("SN 1".into()),
                ..disk("/dev/sdx")
            },
            disk("/d/c"),
        ],
        attributes: [("au_size", "4M"), ("sector_size", "4096")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    assert_eq!(command(sql), Command::CreateDiskgroup(expected));
    let plain = command("CREATE DISKGROUP D DISK 'x'");
    assert!(matches!(plain, Command::CreateDiskgroup(c) if c.redundancy == Redundancy::Normal));
}

#[test]
fn other_storage_statements_are_read() {
    let drop = |name: &str, contents| Command::DropDiskgroup { name: name.into(), contents };
    assert_eq!(command("drop diskgroup d"), drop("D", Contents::Excluding));
    assert_eq!(
        command("drop diskgroup d force including contents;"),
        drop("D", Contents::Including { force: true })
    );
    let alter = |sql: &str, expected: GroupAction| {
        let Command::AlterDiskgroup { groups, action } = command(sql) else { panic!("{sql}") };
        assert_eq!(groups, GroupSelection::Named(vec!["DATA".into()]));
        assert_eq!(action, expected);
    };
    alter("alter diskgroup data mount", GroupAction::Mount { force: false });
    alter("alter diskgroup data mount force", GroupAction::Mount { force: true });
    alter("alter diskgroup data dismount noforce", GroupAction::Dismount { force: false });
    alter(
        "alter diskgroup data add directory '+DATA/a', '+DATA/b'",
        GroupAction::AddDirectory(vec!["+DATA/a".into(), "+DATA/b".into()]),
    );
    alter(
        "alter diskgroup data rename alias '+DATA/a' to '+DATA/b'",
        GroupAction::RenameAlias { from: "+DATA/a".into(), to: "+DATA/b".into() },
    );
    alter(
        "alter diskgroup data drop file '+DATA/it''s'",
        GroupAction::DropFile(vec!["+DATA/it's".into()]),
    );
    alter(
        "alter diskgroup data set attribute 'Disk_Repair_Time' = '10s'",
        GroupAction::SetAttribute { name: "disk_repair_time".into(), value: "10s".into() },
    );
    alter("alter diskgroup data check repair", GroupAction::Check { repair: true });
    assert!(matches!(
        command("alter diskgroup all dismount"),
        Command::AlterDiskgroup { groups: GroupSelection::All, .. }
    ));
}

#[test]
fn templates_are_read() {
    let action = |sql: &str| match command(&format!("alter diskgroup data {sql};")) {
        Command::AlterDiskgroup { action, .. } => action,
        other => panic!("{sql}: {other:?}"),
    };
    let a = TemplateWords {
        protection: Some(Protection::Unprotected),
        striping: Some(Striping::Fine),
        unit: Some(8192),
        checksums: Some(false),
        failgroup: None,
    };
    let b = TemplateWords { failgroup: Some("FG1".into()), ..TemplateWords::default() };
    assert_eq!(
        action(
            "add template a attributes (unprotected fine unit 8k, nochecksum), b attribute \
             (failgroup fg1)"
        ),
        GroupAction::AddTemplates(vec![("A".into(), a), ("B".into(), b)])
    );
    let any = TemplateWords {
        failgroup: Some(String::new()),
        checksums: Some(true),
        ..TemplateWords::default()
    };
    assert_eq!(
        action("modify template datafile attributes (any failgroup checksum)"),
        GroupAction::ModifyTemplates(vec![("DATAFILE".into(), any)])
    );
    let names = vec!["A".to_owned(), "B".to_owned()];
    assert_eq!(action("drop template a, b"), GroupAction::DropTemplates(names));
}

#[test]
fn sizes_go_together_with_disks_that_come_and_go() {
    let resize = |sql: &str| match command(&format!("alter diskgroup data {sql}")) {
        Command::AlterDiskgroup { action: GroupAction::Disks(change), .. } => change,
        other => panic!("{sql}: {other:?}"),
    };
    let to = |target, size| ResizeRequest { target, size };
    let disk = |name: &str| Some(DiskTarget::Disk(name.into()));
    assert_eq!(resize("resize all size 4G").resize, [to(None, Some(4 << 30))]);
    assert_eq!(resize("resize all").resize, [to(None, None)]);
    let all = resize(
        "resize disk data_0000 size 2G, 'data_0001' drop disk x resize disks in failgroup fg2 size 1G
         rebalance power 4 wait",
    );
    let fg = Some(DiskTarget::FailGroup("FG2".into()));
    let expected =
        [to(disk("DATA_0000"), Some(2 << 30)), to(disk("DATA_0001"), None), to(fg, Some(1 << 30))];
    assert_eq!(all.resize, expected);
    assert_eq!((all.drop.len(), all.rebalance.wait), (1, true));
}

#[test]
fn disks_leave_for_a_while_and_return_or_are_replaced() {
    let action = |sql: &str| match command(&format!("alter diskgroup data {sql};")) {
        Command::AlterDiskgroup { action, .. } => action,
        other => panic!("{sql}: {other:?}"),
    };
    let named = |name: &str| DiskTarget::Disk(name.into());
    let offline = |disks, drop_after| GroupAction::Offline(OfflineRequest { disks, drop_after });
    let both = vec![named("DATA_0001"), named("ODD ONE")];
    assert_eq!(action("offline disk data_0001, 'odd one'"), offline(both.clone(), None));
    let fg = vec![DiskTarget::FailGroup("FG1".into())];
    for time in ["30m", "30 M", "0.5h", "0.5 H"] {
        let sql = format!("offline disks in failgroup fg1 drop after {time}");
        assert_eq!(action(&sql), offline(fg.clone(), Some(1800)), "{sql}");
    }
    let online =
        |disks, force, rebalance| GroupAction::Online(OnlineRequest { disks, force, rebalance });
    let waits = Rebalance { power: Some(8), wait: true };
    assert_eq!(action("online all power 8 wait"), online(None, false, waits));
    let plain = Rebalance::default();
    assert_eq!(action("online disk data_0001, 'odd one' force"), online(Some(both), true, plain));
    let replace = GroupAction::Replace(ReplaceRequest {
        disks: vec![
            ("DATA_0001".into(), DiskRequest { size: Some(2 << 30), ..disk("/x") }),
            ("B".into(), disk("/y")),
        ],
        rebalance: waits,
    });
    let sql = "replace disk data_0001 with '/x' size 2G, disk b with '/y' power 8 wait";
    assert_eq!(action(sql), replace);
}

#[test]
fn a_scrub_says_what_it_reads_and_how() {
    let action = |sql: &str| match command(&format!("alter diskgroup data {sql};")) {
        Command::AlterDiskgroup { action, .. } => action,
        other => panic!("{sql}: {other:?}"),
    };
    let plain = ScrubRequest {
        target: ScrubTarget::Group,
        repair: false,
        power: ScrubPower::Auto,
        wait: false,
        force: false,
    };
    assert_eq!(action("scrub"), GroupAction::Scrub(plain.clone()));
    assert_eq!(action("scrub norepair nowait noforce"), GroupAction::Scrub(plain.clone()));
    let all = ScrubRequest {
        target: ScrubTarget::Disk("DATA_0001".into()),
        repair: true,
        power: ScrubPower::Max,
        wait: true,
        force: true,
    };
    let sql = "scrub disk data_0001 repair power max wait force";
    assert_eq!(action(sql), GroupAction::Scrub(all));
    let file = ScrubRequest { target: ScrubTarget::File("+DATA/f".into()), ..plain };
    assert_eq!(action("scrub file '+DATA/f'"), GroupAction::Scrub(file));
    assert_eq!(action("scrub stop"), GroupAction::StopScrub);
}

#[test]
fn disks_that_come_and_go_are_one_change_in_one_statement() {
    let action = |sql: &str| match command(&format!("alter diskgroup data {sql};")) {
        Command::AlterDiskgroup { action, .. } => action,
        other => panic!("{sql}: {other:?}"),
    };
    let gone = |name: &str, force| DropRequest { target: DiskTarget::Disk(name.into()), force };
    let expected = GroupAction::Disks(ChangeRequest {
        add: vec![
            DiskRequest { name: Some("A1".into()), size: Some(2 << 30), ..disk("/d/a") },
            DiskRequest { force: true, ..disk("/d/b") },
            DiskRequest { failgroup: Some("FG2".into()), ..disk("/d/c") },
            DiskRequest { failgroup: Some("FG2".into()), ..disk("/d/d") },
        ],
        drop: vec![
            gone("DATA_0000", false),
            gone("ODD ONE", true),
            DropRequest { target: DiskTarget::FailGroup("FG9".into()), force: false },
        ],
        resize: vec![],
        rebalance: Rebalance { power: Some(8), wait: true },
    });
    for sql in [
        "add disk '/d/a' name a1 size 2G, '/d/b' force failgroup fg2 disk '/d/c', '/d/d'
         drop disk data_0000, 'odd one' force drop disks in failgroup fg9
         rebalance power 8 wait",
        "add disk '/d/a' name a1 size 2G, '/d/b' force, add failgroup fg2 disk '/d/c', '/d/d',
         drop disk data_0000, drop disk 'odd one' force, drop disks in failgroup fg9 noforce
         rebalance power 8 wait",
    ] {
        assert_eq!(action(sql), expected, "{sql}");
    }
    let plain = Rebalance::default();
    assert_eq!(action("undrop disks"), GroupAction::UndropDisks(plain));
    assert_eq!(
        action("rename disk 'a' to 'b', c to d"),
        GroupAction::RenameDisks(vec![("A".into(), "B".into()), ("C".into(), "D".into())])
    );
    assert_eq!(action("rebalance"), GroupAction::Rebalance(plain));
    assert_eq!(
        action("rebalance power 0 nowait"),
        GroupAction::Rebalance(Rebalance { power: Some(0), wait: false })
    );
    assert_eq!(action("rebalance modify power 11"), GroupAction::ModifyPower(Some(11)));
    assert_eq!(action("rebalance modify power"), GroupAction::ModifyPower(None));
    let sql = "explain work for alter diskgroup data drop disk a";
    let Ok(Statement::ExplainWork(work)) = parse(sql) else { panic!("{sql}") };
    assert_eq!(work.group, "DATA");
    let change = ChangeRequest { drop: vec![gone("A", false)], ..ChangeRequest::default() };
    assert_eq!(work.change, change);
    assert!(matches!(
        command("alter diskgroup all undrop disks"),
        Command::AlterDiskgroup {
            groups: GroupSelection::All,
            action: GroupAction::UndropDisks(_)
        }
    ));
}

#[test]
fn parameters_keep_their_units_and_scope() {
    let set = |sql: &str| match command(sql) {
        Command::SetParameter { name, value, scope, comment } => (name, value, scope, comment),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        set("ALTER SYSTEM SET Filesystemio_Options=setall SCOPE=SPFILE"),
        ("filesystemio_options".into(), "setall".into(), Some(Scope::Spfile), None)
    );
    assert_eq!(
        set("alter system set memory_target = 512M comment = 'small' scope = both"),
        ("memory_target".into(), "512M".into(), Some(Scope::Both), Some("small".into()))
    );
    assert_eq!(set("alter system set a = -1").1, "-1");
    assert_eq!(set("alter system set a = 'x, y', z").1, "x, y,z");
    assert!(matches!(
        command("alter system flush cell_cache"),
        Command::Flush { what } if what == "CELL_CACHE"
    ));
    let show = parse("show parameter IO").unwrap();
    assert!(matches!(show, Statement::ShowParameter(Some(p)) if p == "io"));
}

#[test]
fn refusals_name_the_place_and_what_was_expected() {
    let cases = [
        ("create diskgroup", "expected the name of the disk group, found the end"),
        (
            "create diskgroup d disk x",
            "expected the path of a disk in 'quotes', found x (line 1, column 25)",
        ),
        ("create diskgroup d low redundancy disk 'x'", "EXTERNAL, NORMAL or HIGH REDUNDANCY"),
        ("create diskgroup d flex redundancy disk 'x'", "CELLAR-03001: FLEX REDUNDANCY"),
        ("create diskgroup d disk 'x' size 0M", "a size such as 512M"),
        ("create diskgroup d disk 'x' size 99999999999T", "a size such as 512M"),
        ("create diskgroup d disk 'x' nonsense", "expected FAILGROUP, DISK, ATTRIBUTE"),
        ("alter diskgroup d jump", "OFFLINE, ONLINE, REPLACE, SCRUB, SET ATTRIBUTE"),
        ("alter diskgroup d scrub power warp", "AUTO, LOW, HIGH or MAX"),
        ("alter diskgroup d rebalance power x", "a power from 0 (stop) to 1024, found x"),
        ("alter diskgroup d rebalance without compact", "WITHOUT phases is not in this version"),
        ("alter diskgroup d add disk /x", "the path of a disk in 'quotes'"),
        ("alter diskgroup d add disk '/x',", "expected ADD, DROP or RESIZE, found the end"),
        ("alter diskgroup d drop disk a rename disk a to b", "only ADD DISK, DROP DISK and RESIZE"),
        ("alter diskgroup d undrop disks drop disk a", "only ADD DISK, DROP DISK and RESIZE"),
        ("alter diskgroup d resize x size 1G", "expected MOUNT, DISMOUNT, ADD, DROP, RESIZE"),
        ("alter diskgroup d resize disk a size x", "a size such as 512M"),
        ("alter diskgroup d offline disk a drop after 5", "a time such as 30m or 3.6h"),
        ("alter diskgroup d offline disk a drop after 0m", "a time such as 30m or 3.6h"),
        ("alter diskgroup d online", "expected DISK"),
        ("alter diskgroup d replace disk a '/x'", "expected WITH"),
        (
            "alter diskgroup d, e rebalance",
            "MOUNT, DISMOUNT, CHECK or UNDROP DISKS after more than one",
        ),
        ("explain work for alter diskgroup d mount", "ADD DISK, DROP DISK, RESIZE or REBALANCE"),
        ("explain work set statement_id='x' for alter diskgroup d", "leave SET STATEMENT_ID out"),
        ("drop diskgroup d force", "expected INCLUDING CONTENTS"),
        ("alter system set x = 1 scope = disk", "expected MEMORY, SPFILE or BOTH, found disk"),
        (
            "alter system jump",
            "expected SET, RESET, FLUSH, SWITCH, CHECKPOINT, ARCHIVE, KILL or DISCONNECT",
        ),
        ("select 'abc", "Unterminated string literal"),
        ("selec 1", "found: selec"),
        ("", "the statement is empty"),
        ("select 1; select 2", "more than one statement"),
        ("copy t to '+/x'", "CELLAR-15124"),
    ];
    for (sql, part) in cases {
        let message = refusal(sql);
        assert!(message.contains(part), "{sql}\n  gave {message}\n  without {part}");
        assert!(message.starts_with("CELLAR-"), "{message}");
    }
    assert!(refusal(&format!("select {}1{}", "(".repeat(500), ")".repeat(500))).contains("deep"));
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "create",
        "drop",
        "alter",
        "diskgroup",
        "system",
        "set",
        "show",
        "parameter",
        "data",
        "'x'",
        "disk",
        "failgroup",
        "name",
        "size",
        "1",
        "G",
        ",",
        "=",
        ";",
        "(",
        ")",
        "force",
        "including",
        "contents",
        "all",
        "mount",
        "attribute",
        "add",
        "rebalance",
        "power",
        "undrop",
        "disks",
        "rename",
        "to",
        "explain",
        "work",
        "for",
        "select",
        "from",
        "$$",
        "'",
        "\"",
        "#",
        "v$log",
        "-",
        "--",
        "/*",
        "*/",
        "\n",
        "é",
        "scope",
        "memory",
        "add",
        "alias",
        "for",
        "to",
        "rename",
        "directory",
        "file",
        "cast",
        "as",
        "number",
        "varchar2",
        "::",
    ]);
    prop::collection::vec(word, 0..14).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn no_text_makes_the_parser_panic(text in prop_oneof![words(), ".{0,60}"]) {
        let _ = parse(&text);
    }
}

#[test]
fn statements_about_the_redo_log_are_read_as_oracle_writes_them() {
    let redo = |sql: &str| match command(sql) {
        Command::Redo(action) => action,
        other => panic!("{other:?}"),
    };
    let two = "ALTER DATABASE cellar ADD LOGFILE GROUP 4 ('+DATA', '+FLASH.FG1') SIZE 64M \
               BLOCKSIZE 4096 REUSE, '/mnt/flash' SIZE 1 G";
    let first = NewLogfile {
        number: Some(4),
        media: vec!["+DATA".into(), "+FLASH.FG1".into()],
        size: Some(64 << 20),
        block_size: Some(4096),
        reuse: true,
    };
    let media = vec!["/mnt/flash".to_owned()];
    let second = NewLogfile { media, size: Some(1 << 30), ..NewLogfile::default() };
    assert_eq!(redo(two), RedoAction::AddLogfiles(vec![first, second]));
    let none = RedoAction::AddLogfiles(vec![NewLogfile::default()]);
    assert_eq!(redo("alter database add logfile"), none);
    let drop = redo("alter database drop logfile group 3, group 4;");
    assert_eq!(drop, RedoAction::DropLogfiles(vec![3, 4]));
    assert_eq!(redo("alter database drop logfile all"), RedoAction::DropLog);
    let clear = |numbers, unarchived| RedoAction::ClearLogfiles { numbers, unarchived };
    assert_eq!(redo("alter database clear logfile group 3"), clear(vec![3], false));
    let two = redo("ALTER DATABASE cellar CLEAR UNARCHIVED LOGFILE GROUP 3, GROUP 4;");
    assert_eq!(two, clear(vec![3, 4], true));
    let two = vec!["+FLASH".to_owned(), "/mnt/x".to_owned()];
    let add = redo("alter database add logfile member '+FLASH', '/mnt/x' to group 1, group 2");
    assert_eq!(add, RedoAction::AddMembers { members: two, reuse: false, groups: vec![1, 2] });
    let add = redo("alter database add logfile member '/mnt/x' reuse");
    let members = vec!["/mnt/x".to_owned()];
    assert_eq!(add, RedoAction::AddMembers { members, reuse: true, groups: vec![] });
    let drop = redo("alter database drop logfile member '+DATA.FG1'");
    assert_eq!(drop, RedoAction::DropMembers(vec!["+DATA.FG1".into()]));
    assert_eq!(redo("alter system switch logfile"), RedoAction::Switch);
    assert_eq!(redo("alter system checkpoint global"), RedoAction::Checkpoint);
    assert_eq!(redo("alter system archive log current"), RedoAction::ArchiveCurrent);
    assert_eq!(redo("alter database recover force"), RedoAction::RecoverForce);
    assert_eq!(redo("checkpoint;"), RedoAction::Checkpoint);
    for wrong in [
        "alter database open",
        "alter database add logfile blocksize 1024",
        "alter database add logfile group x",
        "alter database add logfile ('+DATA'",
        "alter database drop logfile",
        "alter database clear",
        "alter database clear logfile",
        "alter database clear logfile all",
        "alter database clear logfile unarchived group 1",
        "alter database clear unarchived group 1",
        "alter system switch",
        "alter system archive log all",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
