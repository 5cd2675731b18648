//! The TLS files in a directory, and the certificate that is made if there is none.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rcgen::{CertificateParams, DnType, KeyPair, SanType};

use super::wrong;
use crate::error::Error;

pub(super) const CERTIFICATE: &str = "server.crt";
pub(super) const KEY: &str = "server.key";
pub(super) const ROOTS: &str = "root.crt";

/// What the files hold.
pub(super) struct Read {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// The authority that signs the certificates of clients; `None`: they are asked for none.
    pub roots: Option<Vec<u8>>,
}

fn content(directory: &Path, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = directory.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(wrong(format!("{} cannot be read: {error}", path.display()), "see its rights"))
        }
    }
}

/// Refuses a key that others can read.
fn check_rights(directory: &Path) -> Result<(), Error> {
    let path = directory.join(KEY);
    let Ok(about) = std::fs::metadata(&path) else { return Ok(()) };
    let shown = path.display();
    let own = rustix::process::geteuid().as_raw();
    if about.mode() & 0o077 != 0 {
        let what = format!("others can read {shown}: its mode is {:o}", about.mode() & 0o777);
        return Err(wrong(what, format!("chmod 600 {shown}")));
    }
    match about.uid() == own || about.uid() == 0 {
        true => Ok(()),
        false => Err(wrong(
            format!("{shown} is of user {}, who can read it", about.uid()),
            format!("chown {own} {shown}"),
        )),
    }
}

/// Reads the files; a certificate and its key are made where there is neither.
pub(super) fn read(directory: &Path) -> Result<Read, Error> {
    check_rights(directory)?;
    let roots = content(directory, ROOTS)?;
    let (certificate, key) = (content(directory, CERTIFICATE)?, content(directory, KEY)?);
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => make(directory)?,
        (found, _) => {
            let (here, gone) =
                if found.is_some() { (CERTIFICATE, KEY) } else { (KEY, CERTIFICATE) };
            let what = format!("{} is there, and {gone} is not", directory.join(here).display());
            return Err(wrong(what, format!("put {gone} beside it, or move {here} away")));
        }
    };
    Ok(Read { certificate, key, roots })
}

/// Makes a certificate and its key in a directory; returns the content of both files.
///
/// # Errors
/// They cannot be written, but for a lack of room: then they last as long as the server.
pub fn make(directory: &Path) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (certificate, key) = new().map_err(|error| {
        wrong(format!("no certificate can be made: {error}"), "put yours there")
    })?;
    // The key first: a certificate without one would not be replaced.
    for (name, text, mode) in [(KEY, &key, 0o600), (CERTIFICATE, &certificate, 0o644)] {
        let path = directory.join(name);
        let written =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).and_then(
                |mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()),
            );
        let Err(error) = written else { continue };
        for name in [KEY, CERTIFICATE] {
            // A half-written file must not be taken for one; whoever made the other file has made it now.
            if error.kind() != ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(directory.join(name));
            }
        }
        match error.kind() {
            ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                break;
            }
            _ => {
                let what = format!("{} cannot be written: {error}", path.display());
                return Err(wrong(what, "see that the directory can be written"));
            }
        }
    }
    Ok((certificate.into_bytes(), key.into_bytes()))
}

/// A self-signed certificate for the names of this machine.
fn new() -> Result<(String, String), rcgen::Error> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_owned();
    let key = KeyPair::generate()?;
    let mut names = vec!["localhost".to_owned()];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if !host.is_empty() && host != "localhost" && host.chars().all(is_name) {
        names.push(host);
    }
    let mut params = CertificateParams::new(names)?;
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Cellar");
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
