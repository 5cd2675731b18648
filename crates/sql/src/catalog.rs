//! The catalog as a session sees it: with what its transaction has defined.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_instance::catalog::Catalog;
use cellar_instance::database::{Database, Definitions};

use crate::error::Error;

/// What a transaction defines.
#[derive(Clone)]
struct Defining {
    definitions: Definitions,
    /// It goes on behind the statement that is at work.
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

    /// A transaction, or one of a statement alone, defines from now on.
    pub fn begin(&self, definitions: &Definitions, in_block: bool) {
        *self.defining() = Some(Defining { definitions: definitions.clone(), in_block });
    }

    /// The transaction has ended, or the statement that was alone.
    pub fn end(&self) {
        *self.defining() = None;
    }

    /// The statement is over, and the transaction too if it was alone.
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

    /// Whether the transaction has defined anything, so that its catalog is its own.
    pub fn is_changed(&self) -> bool {
        self.defining().as_ref().is_some_and(|own| own.definitions.is_changed())
    }

    /// The catalog; one without tables where it cannot be read.
    pub fn current(&self) -> Arc<Catalog> {
        self.known().unwrap_or_default()
    }

    /// What the transaction of the statement at work defines; `None`: it has none, for there is no heap yet.
    pub fn of_statement(&self) -> Option<Definitions> {
        self.defining().as_ref().map(|own| own.definitions.clone())
    }

    /// What the transaction that BEGIN has begun defines.
    pub fn of_block(&self) -> Option<Definitions> {
        let defining = self.defining();
        defining.as_ref().filter(|own| own.in_block).map(|own| own.definitions.clone())
    }
}
