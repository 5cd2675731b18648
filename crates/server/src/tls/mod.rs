//! TLS: the certificate of the server, encrypted connections, and the name in a client's certificate.
//!
//! `server.crt` and `server.key` in the directory are read when the server starts and when it is told to
//! read them again; if neither is there, both are made. If there is a `root.crt`, clients are asked for a
//! certificate.

mod der;
mod files;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls::{RootCertStore, crypto};
use tokio_rustls::TlsAcceptor;

pub use self::files::make;
use self::files::{CERTIFICATE, KEY, ROOTS, Read};
use crate::error::Error;
use crate::socket::Joined;
use crate::wire::backend::Out;
use crate::wire::frames::Frames;

/// The protocol name of a client that begins with TLS at once, as psql 17 may.
const PROTOCOL: &[u8] = b"postgresql";

/// The first byte of TLS.
pub(crate) const FIRST_BYTE: u8 = 0x16;

/// What the server shows, and what it asks for.
struct Loaded {
    config: Arc<ServerConfig>,
    /// What both ends know of the certificate of the server: RFC 5929, `tls-server-end-point`.
    endpoint: Option<Bytes>,
}

/// TLS of a server.
pub(crate) struct Tls {
    directory: PathBuf,
    loaded: RwLock<Arc<Loaded>>,
}

/// That a connection is encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Encrypted {
    /// What the proof of a password is bound to.
    pub endpoint: Option<Bytes>,
    /// The name in the certificate of the client, which was verified.
    pub client: Option<String>,
}

fn wrong(what: String, next: impl Into<String>) -> Error {
    Error::Certificate { what, next: next.into() }
}

impl Tls {
    /// Reads what there is in a directory, and makes what is not there.
    ///
    /// # Errors
    /// A file cannot be read, or others can read the key; it is not what it should be.
    pub fn open(directory: &Path) -> Result<Tls, Error> {
        let loaded = RwLock::new(Arc::new(load(directory)?));
        Ok(Tls { directory: directory.to_owned(), loaded })
    }

    /// Reads the files again; if they are invalid, those in use stay.
    ///
    /// # Errors
    /// As of [`Tls::open`].
    pub fn reload(&self) -> Result<(), Error> {
        let loaded = Arc::new(load(&self.directory)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// Switches to TLS. `is_direct`: the client began with it, and must have named its protocol.
    ///
    /// # Errors
    /// The client does not go on so.
    pub async fn accept(
        &self,
        (frames, out): (&mut Frames, &mut Out),
        is_direct: bool,
    ) -> std::io::Result<Encrypted> {
        let loaded = Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner));
        let ((before, reader), writer) = (frames.taken(), out.taken());
        let acceptor = TlsAcceptor::from(Arc::clone(&loaded.config));
        let stream = acceptor.accept(Joined { before, reader, writer }).await?;
        let (_, connection) = stream.get_ref();
        if is_direct && connection.alpn_protocol() != Some(PROTOCOL) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let client = connection.peer_certificates().and_then(|all| all.first());
        let client = client.and_then(|own| der::common_name(own));
        let (reader, writer) = tokio::io::split(stream);
        frames.go_on(Box::new(reader));
        out.go_on(Box::new(writer));
        Ok(Encrypted { endpoint: loaded.endpoint.clone(), client })
    }
}

fn load(directory: &Path) -> Result<Loaded, Error> {
    let Read { certificate, key, roots } = files::read(directory)?;
    let shown = |name: &str| directory.join(name).display().to_string();
    let replace = "replace it, or move server.crt and server.key away: new ones are made";
    let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let none = || wrong(format!("{} holds no certificate in PEM", shown(CERTIFICATE)), replace);
    let chain = chain.ok_or_else(none)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|_| wrong(format!("{} holds no private key in PEM", shown(KEY)), replace))?;
    let endpoint = endpoint(&chain[0]);
    let provider = Arc::new(crypto::ring::default_provider());
    let failed = |error: rustls::Error| wrong(format!("TLS cannot begin: {error}"), replace);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = match roots {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let next = "replace it, or move it away: clients are asked for no certificate then";
            let wrong = |why: &str| wrong(format!("{}: {why}", shown(ROOTS)), next);
            let mut store = RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(&roots) {
                let root = root.map_err(|_| wrong("it is no PEM"))?;
                store.add(root).map_err(|error| wrong(&error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| wrong(&error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        wrong(format!("{} and {} do not fit: {error}", shown(CERTIFICATE), shown(KEY)), replace)
    })?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Loaded { config: Arc::new(config), endpoint })
}

/// The certificate, hashed as its own signature hashes; weaker methods count as SHA-256. `None`: it has another one,
/// and proofs of passwords are not bound to it.
fn endpoint(certificate: &[u8]) -> Option<Bytes> {
    let algorithm = match der::signature_hash(certificate)? {
        der::Hash::Sha256 => &digest::SHA256,
        der::Hash::Sha384 => &digest::SHA384,
        der::Hash::Sha512 => &digest::SHA512,
    };
    Some(Bytes::copy_from_slice(digest::digest(algorithm, certificate).as_ref()))
}
