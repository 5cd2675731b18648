//! The first message of a connection, which has no kind: what the client wants, and who it says it is.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::body::Body;
use crate::error::Refusal;

/// Bytes of it at most, as in PostgreSQL.
pub(crate) const STARTUP_MAX: usize = 10_000;

const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;

/// The newest minor version of the protocol that is spoken here.
pub(crate) const MINOR: u16 = 0;

/// What a client wants first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// To switch to TLS.
    Tls,
    /// To switch to GSSAPI encryption.
    Gss,
    /// To cancel what another connection does.
    Cancel(Key),
    /// A session.
    Session(Startup),
}

/// What identifies a connection in a request to cancel its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub process: i32,
    pub secret: u32,
}

/// Who wants a session, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Startup {
    /// The minor version of the protocol that the client has.
    pub minor: u16,
    pub user: String,
    pub database: Option<String>,
    /// Settings of the session.
    pub settings: BTreeMap<String, String>,
    /// Options of the protocol, which begin with `_pq_.`.
    pub protocol_options: Vec<String>,
}

/// Reads what a client wants first.
///
/// # Errors
/// 08P01 it is no message; 0A000 it is of another version; 28000 it names no user.
pub(crate) fn read(bytes: Bytes) -> Result<First, Refusal> {
    let mut body = Body::new(bytes);
    let code = body.u32()?;
    match code {
        SSL => return Ok(First::Tls),
        GSS => return Ok(First::Gss),
        CANCEL => {
            let key = Key { process: body.i32()?, secret: body.u32()? };
            body.finish()?;
            return Ok(First::Cancel(key));
        }
        _ => {}
    }
    let (major, minor) = ((code >> 16) as u16, (code & 0xffff) as u16);
    if major != 3 {
        return Err(Refusal::new(
            "0A000",
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0"),
        ));
    }
    let mut startup = Startup { minor, ..Startup::default() };
    loop {
        let name = body.text()?;
        if name.is_empty() {
            break;
        }
        let value = body.text()?;
        match &*name {
            "user" => startup.user = value,
            "database" => startup.database = Some(value).filter(|own| !own.is_empty()),
            "replication" => match &*value {
                "false" | "off" | "no" | "0" => {}
                _ => {
                    return Err(Refusal::new(
                        "0A000",
                        "replication connections are not in this version of Cellar",
                    ));
                }
            },
            "options" => options(&value, &mut startup.settings)?,
            _ if name.starts_with("_pq_.") => startup.protocol_options.push(name),
            _ => drop(startup.settings.insert(name, value)),
        }
    }
    body.finish()?;
    if startup.user.is_empty() {
        return Err(Refusal::new("28000", "no PostgreSQL user name specified in startup packet"));
    }
    Ok(First::Session(startup))
}

/// Options as on PostgreSQL's command line: `-c name=value`, `--name=value`; a backslash takes what follows as it is.
fn options(text: &str, settings: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next(),
            Some(rest) => Some(rest.to_owned()),
            None => None,
        };
        let Some((name, value)) = setting.as_deref().and_then(|own| own.split_once('=')) else {
            let text = format!("invalid command-line argument for server process: {word}");
            return Err(Refusal::new("42601", text));
        };
        settings.insert(name.trim().replace('-', "_"), value.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(bytes: &'static [u8]) -> Result<First, Refusal> {
        read(Bytes::from_static(bytes))
    }

    #[test]
    fn a_startup_is_read_and_what_is_none_is_refused() {
        let bytes = b"\0\x03\0\0user\0me\0database\0d\0options\0-c a=b\\ c --d-e=f\0client_encoding\0UTF8\0\0";
        let Ok(First::Session(startup)) = session(bytes) else { panic!("it is one") };
        assert_eq!((&*startup.user, startup.database.as_deref()), ("me", Some("d")));
        assert_eq!(startup.settings["a"], "b c");
        assert_eq!(startup.settings["d_e"], "f");
        assert_eq!(startup.settings["client_encoding"], "UTF8");
        for end in 0..bytes.len() {
            assert!(session(&bytes[..end]).is_err(), "{end}");
        }
        assert_eq!(session(b"\0\x02\0\0user\0me\0\0").unwrap_err().sqlstate, "0A000");
        assert_eq!(session(b"\0\x04\0\0user\0me\0\0").unwrap_err().sqlstate, "0A000");
        assert_eq!(session(b"\0\x03\0\0\0").unwrap_err().sqlstate, "28000");
        assert_eq!(session(b"\0\x03\0\0user\0\xff\0\0").unwrap_err().sqlstate, "22021");
        assert_eq!(session(b"\x04\xd2\x16\x2f"), Ok(First::Tls));
        assert!(session(b"\x04\xd2\x16\x2e\0\0\0\x01").is_err());
        let key = Key { process: 1, secret: 2 };
        assert_eq!(session(b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"), Ok(First::Cancel(key)));
    }
}
