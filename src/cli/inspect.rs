//! `cellar inspect`: what is written on a disk, structure by structure.

use std::path::PathBuf;
use std::sync::Arc;

use cellar_instance::diskgroup::{Inspection, inspect};
use cellar_io::Device;
use cellar_io::real::{OpenOptions, open_disk};
use serde_json::{Value, json};

use super::database::Place;
use super::fault::Fault;
use super::output::{self, Format};

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar inspect cellar-demo/disks/disk1
  cellar inspect /dev/disk/by-id/ata-X --json | jq .
The disk is only read, and may be in use meanwhile.")]
pub struct Args {
    /// A disk or file.
    pub path: PathBuf,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The same as --format json.
    #[arg(long)]
    pub json: bool,
}

/// Runs `inspect`.
///
/// # Errors
/// The disk cannot be opened. What is damaged on it is shown, and no error.
pub async fn run(args: Args, place: &Place) -> Result<(), Fault> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let opened = open_disk(&place.real, &output::path(&args.path), &options);
    let device: Arc<dyn Device> = opened.map_err(cellar_instance::Error::from)?;
    let found = inspect(&device).await;
    match args.json || args.format == Format::Json {
        true => output::json(&as_json(&found)),
        false => output::text(&found.to_string()),
    }
}

fn as_json(part: &Inspection) -> Value {
    let parts: Vec<Value> = part.parts.iter().map(as_json).collect();
    json!({ "name": part.name, "value": part.value, "parts": parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_keeps_its_shape_as_json() {
        let leaf = Inspection { name: "au_size".into(), value: "4194304".into(), parts: vec![] };
        let root = Inspection { name: "label".into(), value: String::new(), parts: vec![leaf] };
        assert_eq!(as_json(&root)["parts"][0]["value"], "4194304");
    }
}
