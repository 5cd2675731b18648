//! The parameters as storage reads them.

use cellar_storage::Settings;

use super::{Parameters, Scope};
use crate::error::Result;

impl Settings for Parameters {
    fn integer(&self, name: &'static str) -> u64 {
        Parameters::integer(self, name)
    }

    fn flag(&self, name: &'static str) -> bool {
        Parameters::flag(self, name)
    }

    fn choice(&self, name: &'static str) -> &'static str {
        Parameters::choice(self, name)
    }

    fn text(&self, name: &'static str) -> String {
        Parameters::text(self, name)
    }

    fn list(&self, name: &'static str) -> Vec<String> {
        Parameters::list(self, name)
    }

    fn set_list(&self, name: &'static str, parts: Vec<String>) -> Result<()> {
        Parameters::set_list(self, name, parts, Some(Scope::Both)).map(drop)
    }
}
