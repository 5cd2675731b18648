//! The program `sim`, as whoever looks for faults runs it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::process::{Command, Output};

fn sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(words).output().unwrap()
}

#[test]
fn a_run_tells_what_it_did_and_nothing_is_lost() {
    let output = sim(&["--seeds", "20"]);
    let (text, told) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    assert_eq!(output.status.code(), Some(0), "{text}{told}");
    for mode in ["stay", "faults", "rot"] {
        assert!(text.contains(mode), "{text}");
    }
    assert_eq!(sim(&["--seeds", "0"]).status.code(), Some(2));
    assert_eq!(sim(&["--mode", "nothing"]).status.code(), Some(2));
}
