//! Subcommands for experiments, each with its own options, generated from the lab's description
//! of each.

use std::collections::BTreeMap;

use cellar_lab::{Experiment, experiments};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error, FromArgMatches, Subcommand};

/// An experiment and the options that were given for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) options: BTreeMap<String, String>,
}

fn command(one: &'static dyn Experiment) -> Command {
    let args = one.options().iter().enumerate().map(|(order, option)| {
        let help = format!("{} [default: {}]", option.help, option.default);
        let arg = Arg::new(option.name).long(option.name).value_name(option.value).help(help);
        arg.help_heading("Options of this experiment").display_order(order)
    });
    Command::new(one.name())
        .about(one.question())
        .args(args)
        .after_help(format!("Examples:\n{}", one.examples()))
}

impl Subcommand for Named {
    fn augment_subcommands(parent: Command) -> Command {
        // An unknown one is reported below, with those that exist.
        parent
            .subcommands(experiments::ALL.iter().map(|e| command(*e)))
            .allow_external_subcommands(true)
    }

    fn augment_subcommands_for_update(parent: Command) -> Command {
        Named::augment_subcommands(parent)
    }

    fn has_subcommand(_name: &str) -> bool {
        true
    }
}

impl FromArgMatches for Named {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Named, Error> {
        let Some((name, given)) = matches.subcommand() else {
            return Err(Error::raw(ErrorKind::MissingSubcommand, "which experiment?\n"));
        };
        let Some(found) = experiments::find(name) else {
            let names: Vec<&str> = experiments::ALL.iter().map(|e| e.name()).collect();
            let text = format!("no experiment \"{name}\"; there are: {}\n", names.join(", "));
            return Err(Error::raw(ErrorKind::InvalidSubcommand, text));
        };
        let word = |name: &str| Some((name.to_owned(), given.get_one::<String>(name)?.clone()));
        let options = found.options().iter().filter_map(|option| word(option.name)).collect();
        Ok(Named { name: name.to_owned(), options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Named::from_arg_matches(matches)?;
        Ok(())
    }
}
