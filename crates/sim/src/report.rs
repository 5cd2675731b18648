//! The report of a run, as text and as JSON.

use cellar_sim::{FAULTS, Failure, Stats, TAIL};
use serde_json::{Value, json};

use crate::clock::Took;
use crate::run::{Line, Ran};

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Operations in a minute of one core.
fn per_minute(ops: u64, took: Took) -> u64 {
    let millis = took.cpu.as_millis().max(1);
    u64::try_from(u128::from(ops) * 60_000 / millis).unwrap_or(u64::MAX)
}

fn totals(ran: &Ran) -> (Stats, Took) {
    let (mut stats, mut took) = (Stats::default(), Took::default());
    for line in &ran.lines {
        stats.add(line.stats);
        took += line.took;
    }
    (stats, took)
}

/// A line for each mode, a line for each fault, then the failures.
pub fn text(ran: &Ran) {
    let (all, took) = totals(ran);
    println!(
        "{:<16} {:>7} {:>8} {:>8} {:>12} {:>8} {:>8} {:>8} {:>8} {:>12}",
        "mode",
        "seeds",
        "crashes",
        "mounts",
        "operations",
        "losses",
        "returns",
        "scrubs",
        "mended",
        "ops/min"
    );
    for line in &ran.lines {
        row(line.mode.name(), &line.stats, line.took);
    }
    if ran.lines.len() > 1 {
        row("all", &all, took);
    }
    println!();
    println!(
        "{:>2} {:<44} {:>12} {:>12} {:>12} {:>6}",
        "", "fault", "injected", "detected", "harmless", "silent"
    );
    for (i, fault) in FAULTS.iter().enumerate() {
        let count = all.faults[i];
        let dash = |n: u64| if fault.is_damage { grouped(n) } else { "-".into() };
        println!(
            "{:>2} {:<44} {:>12} {:>12} {:>12} {:>6}",
            i + 1,
            fault.name,
            grouped(count.injected),
            dash(count.detected),
            dash(count.harmless),
            dash(count.silent),
        );
    }
    println!();
    println!(
        "{} operations, {} load, {:.1} s of one core ({:.1} s in all); {} seeds ran twice alike",
        grouped(all.ops),
        ran.load,
        took.cpu.as_secs_f64(),
        took.wall.as_secs_f64(),
        ran.lines.iter().map(|line| line.replayed).sum::<u64>(),
    );
    for failure in &ran.failures {
        println!();
        // Everything, if only one seed is run.
        let lines = if all.seeds == 1 { usize::MAX } else { TAIL };
        for line in failure.tail(lines) {
            println!("{line}");
        }
        println!("FAILED: mode {}, seed {}: {}", failure.mode, failure.seed, failure.message);
        println!("  again: {}", failure.command());
    }
    if ran.failures.is_empty() {
        println!("nothing was lost, and nothing read was wrong");
    } else {
        println!("\n{} seeds failed", ran.failures.len());
    }
}

fn row(name: &str, s: &Stats, took: Took) {
    println!(
        "{name:<16} {:>7} {:>8} {:>8} {:>12} {:>8} {:>8} {:>8} {:>8} {:>12}",
        grouped(s.seeds),
        grouped(s.crashes),
        grouped(s.mounts),
        grouped(s.ops),
        grouped(s.lost_legs),
        grouped(s.returned),
        grouped(s.scrubs),
        grouped(s.mended),
        grouped(per_minute(s.ops, took)),
    );
}

fn stats_json(s: &Stats, took: Took) -> Value {
    let faults: Vec<Value> = FAULTS
        .iter()
        .zip(&s.faults)
        .zip(1..)
        .map(|((fault, count), number)| {
            json!({
                "number": number,
                "fault": fault.name,
                "injected": count.injected,
                "detected": count.detected,
                "harmless": count.harmless,
                "silent": count.silent,
            })
        })
        .collect();
    json!({
        "seeds": s.seeds,
        "crashes": s.crashes,
        "mounts": s.mounts,
        "operations": s.ops,
        "losses": s.lost_legs,
        "not_proven": s.not_proven,
        "returned": s.returned,
        "replaced": s.replaced,
        "diverged": s.diverged,
        "scrubs": s.scrubs,
        "mended": s.mended,
        "faults": faults,
        "cpu_seconds": took.cpu.as_secs_f64(),
        "seconds": took.wall.as_secs_f64(),
        "operations_per_minute": per_minute(s.ops, took),
    })
}

fn line_json(line: &Line) -> Value {
    let mut value = stats_json(&line.stats, line.took);
    value["mode"] = json!(line.mode.name());
    value["replayed"] = json!(line.replayed);
    value
}

fn failure_json(failure: &Failure) -> Value {
    json!({
        "mode": failure.mode.name(),
        "seed": failure.seed,
        "message": failure.message,
        "again": failure.command(),
        "history": failure.tail(TAIL),
    })
}

/// Prints the report as one JSON object.
pub fn json(ran: &Ran) {
    let (all, took) = totals(ran);
    let value = json!({
        "load": ran.load.name(),
        "all": stats_json(&all, took),
        "modes": ran.lines.iter().map(line_json).collect::<Vec<_>>(),
        "failed": ran.failures.iter().map(failure_json).collect::<Vec<_>>(),
    });
    println!("{value:#}");
}
