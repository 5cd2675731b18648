//! Answers held against plain loops: random tables, random questions, of a columnar table, of the same
//! rows in a Parquet file in place, and of the rows as a loop computes them.
//!
//! `CELLAR_SEED=n` asks other questions, `QUESTIONS=n` so many.

#![cfg(feature = "sql")]

mod expr;
mod table;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use crate::chance::Chance;
use crate::program::{self, cellar, done, out, sql, told};
use expr::{Condition, OF_TABLE, Term};
use table::{COLUMNS, Kind, Row};
use value::{Value, floats};

const ROWS: usize = 600;

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The table as a columnar one, and as a file in place.
fn make(dir: &Path, rows: &[Row]) {
    done(dir, &["init", "db", "--disks", "3", "--disk-size", "128M", "--au-size", "1M"]);
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut script = String::new();
    for (at, part) in rows.chunks(ROWS / 3).enumerate() {
        let head = if at == 0 { "create table c as" } else { "insert into c" };
        let values = table::values(part, at * (ROWS / 3));
        script += &format!("{head} select * from (values {values}) v(id, {});\n", names.join(", "));
    }
    script += "copy (select * from c) to '+DATA/p.parquet' stored as parquet;
        create external table p stored as parquet location '+DATA/p.parquet';\n";
    let list = OF_TABLE.map(|own| format!("({own})")).join(", ");
    script += &format!("create table without_null as select * from (values {list}) v(v);\n");
    script += &format!("create table with_null as select * from (values {list}, (null)) v(v);\n");
    std::fs::write(dir.join("make.sql"), script).unwrap();
    done(dir, &["sql", "db", "-f", "make.sql"]);
}

/// What a loop knows of the rows that pass; `None`: arithmetic goes beyond its type in some row.
fn expected(rows: &[Row], condition: &Condition) -> Option<String> {
    let mut passed = Vec::new();
    for (id, row) in rows.iter().enumerate() {
        if condition.of(row).ok()? == Some(true) {
            passed.push((id, row));
        }
    }
    let column = |kind: Kind| COLUMNS.iter().position(|(_, own)| *own == kind).unwrap();
    let of = |kind: Kind| passed.iter().map(move |(_, row)| &row[column(kind)]);
    let sum = of(Kind::BigInt).fold(None, |sum: Option<i128>, value| match value {
        Value::Decimal(number, _) => Some(sum.unwrap_or(0) + number),
        _ => sum,
    });
    let doubles = || {
        of(Kind::Double).filter_map(|value| match value {
            Value::Float(float) => Some(*float),
            _ => None,
        })
    };
    let least = doubles().reduce(|a, b| if floats(b, a).is_lt() { b } else { a });
    let most = doubles().reduce(|a, b| if floats(b, a).is_gt() { b } else { a });
    // -0 and 0 are one number, and so is each NaN.
    let key = |float: f64| {
        if float == 0.0 { 0 } else { (float + 0.0).abs().to_bits() as i64 * sign(float) }
    };
    let different: std::collections::BTreeSet<i64> = doubles().map(key).collect();
    let texts = of(Kind::Text).filter(|value| **value == Value::Text(String::new())).count();
    let ids: usize = passed.iter().map(|(id, _)| id).sum();
    let float =
        |float: Option<f64>| float.map_or("null".into(), |float| format!("{:?}", float + 0.0));
    Some(format!(
        "{},{},{},{},{},{},{texts}",
        passed.len(),
        if passed.is_empty() { "null".into() } else { ids.to_string() },
        sum.map_or("null".into(), |sum| sum.to_string()),
        float(least),
        float(most),
        different.len(),
    ))
}

fn sign(float: f64) -> i64 {
    if float.is_sign_negative() && !float.is_nan() { -1 } else { 1 }
}

fn question(at: usize, table: &str, condition: &Condition) -> String {
    format!(
        "select {at} as q, '{table}' as of, count(*) as n, sum(id) as ids, sum(b) as b, min(f) + 0 as low, \
         max(f) + 0 as high, count(distinct f) as k, count(case when s = '' then 1 end) as e from {table} \
         where {};\n",
        condition.sql()
    )
}

/// The answers by question and table.
fn answers(text: &str) -> BTreeMap<(usize, String), String> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with("q,")) {
        let mut parts = line.splitn(3, ',');
        let (at, table, rest) = (parts.next(), parts.next(), parts.next());
        if let (Some(Ok(at)), Some(table), Some(rest)) = (at.map(str::parse), table, rest) {
            let rest: Vec<String> = rest.split(',').map(plain).collect();
            found.insert((at, table.to_owned()), rest.join(","));
        }
    }
    found
}

/// A field as the loop writes it.
fn plain(field: &str) -> String {
    match field {
        "" => "null".into(),
        "inf" | "-inf" | "NaN" => field.into(),
        // A floating-point number has a point or an exponent.
        _ if field.contains(['.', 'e']) => format!("{:?}", field.parse::<f64>().unwrap()),
        _ => field.into(),
    }
}

#[test]
fn answers_are_those_of_plain_loops() {
    let seed = from_env("CELLAR_SEED", 22);
    let questions = from_env("QUESTIONS", 1_000) as usize;
    let mut chance = Chance(seed);
    let rows = table::rows(&mut chance, ROWS);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    make(dir.path(), &rows);
    let (mut script, mut wanted, mut beyond) = (String::new(), BTreeMap::new(), Vec::new());
    for at in 0..questions {
        let condition = Condition::random(&mut chance, 2);
        match expected(&rows, &condition) {
            Some(answer) => {
                for table in ["c", "p"] {
                    script += &question(at, table, &condition);
                    wanted.insert((at, table.to_owned()), (answer.clone(), condition.sql()));
                }
            }
            None => beyond.push(condition),
        }
    }
    std::fs::write(dir.path().join("ask.sql"), script).unwrap();
    let output = cellar(dir.path(), &["sql", "db", "-f", "ask.sql", "--format", "csv"]);
    assert!(output.status.success(), "seed {seed}: {}", told(&output));
    let got = answers(&out(&output));
    let mut wrong = Vec::new();
    for (key, (answer, condition)) in &wanted {
        if got.get(key) != Some(answer) {
            wrong.push(format!("{key:?} where {condition}\n  {:?}\n  {answer}", got.get(key)));
        }
    }
    assert!(wrong.is_empty(), "seed {seed}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(wanted.len() > questions, "most questions have an answer: {}", wanted.len());
    // What overflows in a row that is looked at fails; a row that need not be looked at may pass.
    let must_fail = |own: &&Condition| match own {
        Condition::Compare(_, _, Term::Literal(value, _)) => !value.is_null(),
        own => matches!(own, Condition::Compare(..)),
    };
    for condition in beyond.iter().filter(must_fail).take(10) {
        for table in ["c", "p"] {
            let statement = format!("select count(*) from {table} where {}", condition.sql());
            let told = program::refused(dir.path(), &statement);
            assert!(told.contains("CELLAR-01426"), "{statement}: {told}");
        }
    }
    sql(dir.path(), "drop table c");
}
