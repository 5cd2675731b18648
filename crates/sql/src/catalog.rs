//! The catalog as a session sees it: including what its transaction has defined.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_instance::catalog::Catalog;
use cellar_instance::database::{Database, Definitions};

use crate::error::Error;

/// What a transaction defines.
#[derive(Clone)]
struct Defining {
    definitions: Definitions,
    /// The transaction goes on after the current statement.
    in_block: bool,
}

/// The catalog for one session.
pub(crate) struct SessionCatalog {
    database: Arc<Database>,
    defining: Mutex<Option<Defining>>,
}

impl SessionCatalog {
    /// The catalog of a database for a session without a transaction.
    pub fn new(database: Arc<Database>) -> SessionCatalog {
        SessionCatalog { database, defining: Mutex::default() }
    }

    fn defining(&self) -> MutexGuard<'_, Option<Defining>> {
        self.defining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction, or that of a single statement, defines from now on.
    pub fn begin(&self, definitions: &Definitions, in_block: bool) {
        *self.defining() = Some(Defining { definitions: definitions.clone(), in_block });
    }

    /// The transaction, or that of a single statement, has ended.
    pub fn end(&self) {
        *self.defining() = None;
    }

    /// The statement is over, and so is the transaction if it was that of a single statement.
    pub fn end_statement(&self) {
        let mut defining = self.defining();
        if defining.as_ref().is_some_and(|own| !own.in_block) {
            *defining = None;
        }
    }

    /// The catalog.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn known(&self) -> Result<Arc<Catalog>, Error> {
        match &*self.defining() {
            Some(defining) => Ok(defining.definitions.catalog()?),
            None => Ok(self.database.catalog().known()?),
        }
    }

    /// Whether the transaction has defined anything, so that it has a catalog of its own.
    pub fn is_changed(&self) -> bool {
        self.defining().as_ref().is_some_and(|own| own.definitions.is_changed())
    }

    /// The catalog; one without tables if it cannot be read.
    pub fn current(&self) -> Arc<Catalog> {
        self.known().unwrap_or_default()
    }

    /// What the transaction of the current statement defines; `None`: it has none, because there is no
    /// heap yet.
    pub fn of_statement(&self) -> Option<Definitions> {
        self.defining().as_ref().map(|own| own.definitions.clone())
    }

    /// What the transaction begun by BEGIN defines.
    pub fn of_block(&self) -> Option<Definitions> {
        let defining = self.defining();
        defining.as_ref().filter(|own| own.in_block).map(|own| own.definitions.clone())
    }
}
