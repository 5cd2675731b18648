//! Parts of a server that all of its sessions share.

use std::sync::Arc;

use cellar_instance::database::Database;
use cellar_sql::Common;
use tokio::sync::{Semaphore, watch};

use crate::access::Access;
use crate::cancel::Keys;
use crate::stop::Phase;
use crate::tls::Tls;

/// What all sessions share.
pub(crate) struct Shared {
    pub database: Arc<Database>,
    pub engines: Arc<Common>,
    pub access: Access,
    pub tls: Tls,
    pub keys: Keys,
    pub places: Arc<Semaphore>,
    pub phase: watch::Receiver<Phase>,
}
