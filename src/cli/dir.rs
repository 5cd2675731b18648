//! The directory of a command: as given, or `$CELLAR_DIR`.

use std::path::PathBuf;

use super::fault::Fault;

/// The directory given, else that of the environment.
///
/// # Errors
/// Wrong usage if there is neither.
pub fn resolve(given: Option<PathBuf>) -> Result<PathBuf, Fault> {
    choose(given, std::env::var_os("CELLAR_DIR").map(PathBuf::from))
}

fn choose(given: Option<PathBuf>, environment: Option<PathBuf>) -> Result<PathBuf, Fault> {
    given.or(environment).filter(|dir| !dir.as_os_str().is_empty()).ok_or_else(|| {
        Fault::usage("which DIR? Give it, or set CELLAR_DIR: export CELLAR_DIR=./cellar-demo")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_goes_before_the_environment() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(choose(path("a"), path("b")).unwrap(), PathBuf::from("a"));
        assert_eq!(choose(None, path("b")).unwrap(), PathBuf::from("b"));
        assert!(matches!(choose(None, path("")), Err(Fault::Usage(_))));
        assert!(matches!(choose(None, None), Err(Fault::Usage(_))));
    }
}
