//! lstmpl, mktmpl, chtmpl, rmtmpl: templates, the properties of new files.

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{Protection, TemplateChange, TemplateWords};
use clap::ValueEnum;

use super::table::Table;
use super::{Show, chosen, matches};
use crate::cli::database::Database;
use crate::cli::fault::Fault;
use crate::cli::output::{self, Format};

/// Arguments of `lstmpl`.
#[derive(Debug, clap::Args)]
pub struct Lstmpl {
    /// Only of this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// With settings.
    #[arg(short = 'l')]
    long: bool,
    /// A template, or a pattern.
    pattern: Option<String>,
}

/// Arguments of `mktmpl` and `chtmpl`.
#[derive(Debug, clap::Args)]
pub struct Settmpl {
    /// The group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    /// How many copies.
    #[arg(long, value_enum)]
    redundancy: Option<Copies>,
    /// How bytes go round the extents.
    #[arg(long, value_enum)]
    striping: Option<Stripes>,
    /// The smallest piece that is repaired as one: 4K or 8K.
    #[arg(long, value_name = "SIZE")]
    unit: Option<String>,
    /// Whether each 4 KB has a checksum.
    #[arg(long, value_enum)]
    checksums: Option<OnOff>,
    /// Confine files to this failure group, with one copy; "any" for all.
    #[arg(long, value_name = "NAME")]
    failgroup: Option<String>,
    /// The template.
    template: String,
}

/// Arguments of `rmtmpl`.
#[derive(Debug, clap::Args)]
pub struct Rmtmpl {
    /// The group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    /// The template.
    template: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Copies {
    /// One copy
    Unprotected,
    /// Two; three in a high redundancy group
    Mirror,
    /// Three
    High,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stripes {
    /// One AU after the other
    Coarse,
    /// 128 KB round eight AUs
    Fine,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnOff {
    /// Each 4 KB has one
    On,
    /// None
    Off,
}

/// Templates.
pub fn lstmpl(args: &Lstmpl, database: &Database, show: Show) -> Result<(), Fault> {
    let all = args.long || show.format == Format::Json;
    let mut table = Table::new(match all {
        true => &["Group", "Name", "Stripe", "Sys", "Redund", "Unit", "Checksums", "Failgroup"],
        false => &["Name"],
    });
    let pattern = args.pattern.as_deref().map(str::to_uppercase);
    for mounted in chosen(database, args.group.as_deref())? {
        for template in mounted.group.templates() {
            if pattern.as_ref().is_some_and(|pattern| !matches(pattern, &template.name)) {
                continue;
            }
            let fine = template.striping == Striping::Fine;
            table.push(match all {
                false => vec![template.name.into()],
                true => vec![
                    mounted.group.name().into(),
                    template.name.into(),
                    if fine { "FINE" } else { "COARSE" }.into(),
                    if template.system { "Y" } else { "N" }.into(),
                    template.protection.name().into(),
                    template.unit.into(),
                    if template.checksums { "Y" } else { "N" }.into(),
                    template.failgroup.unwrap_or_default().into(),
                ],
            });
        }
    }
    match show.format {
        Format::Table => output::text(&table.text(show.header)),
        Format::Json => output::json(&serde_json::Value::Array(table.json())),
    }
}

/// Creates a template, or changes one.
pub async fn set(change: TemplateChange, args: &Settmpl, database: &Database) -> Result<(), Fault> {
    let wrong = |text: &str| Fault::usage(format!("\"{text}\" is no size; --unit takes 4K or 8K"));
    let size = |text: &str| cellar_storage::size::parse(text).ok_or_else(|| wrong(text));
    let unit = args.unit.as_deref().map(size).transpose()?;
    let words = TemplateWords {
        protection: args.redundancy.map(|copies| match copies {
            Copies::Unprotected => Protection::Unprotected,
            Copies::Mirror => Protection::Mirror,
            Copies::High => Protection::High,
        }),
        striping: args.striping.map(|stripes| match stripes {
            Stripes::Coarse => Striping::Coarse,
            Stripes::Fine => Striping::Fine,
        }),
        unit: unit.map(|unit| u32::try_from(unit).unwrap_or(u32::MAX)),
        checksums: args.checksums.map(|on| matches!(on, OnOff::On)),
        failgroup: args.failgroup.as_ref().map(|name| match name.to_uppercase() {
            any if any == "ANY" => String::new(),
            name => name,
        }),
    };
    let mounted = database.inner.group(&args.group)?;
    mounted.group.set_templates(change, &[(args.template.clone(), words)]).await?;
    Ok(())
}

/// Removes a template.
pub async fn rmtmpl(args: &Rmtmpl, database: &Database) -> Result<(), Fault> {
    let mounted = database.inner.group(&args.group)?;
    mounted.group.drop_templates(std::slice::from_ref(&args.template)).await?;
    Ok(())
}
