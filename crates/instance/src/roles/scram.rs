//! Stored passwords: what SCRAM-SHA-256 needs to check one, without revealing it.
//!
//! The text is PostgreSQL's: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`, the last three in base64.
//! Source: RFC 5802, RFC 7677, and PostgreSQL's `scram-common.c`.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// The name of the method.
pub const METHOD: &str = "SCRAM-SHA-256";

/// How often a password is hashed, as in PostgreSQL.
const ITERATIONS: u32 = 4096;

/// A limit on the iterations: more of them would keep a client busy.
const ITERATIONS_MAX: u32 = 1_000_000;

/// Bytes of a key, and of a proof.
pub const KEY: usize = 32;

const SALT: usize = 16;
const SALT_MAX: usize = 256;

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored: [u8; KEY],
    server: [u8; KEY],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

fn signed(key: &[u8], text: &[u8]) -> [u8; KEY] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    fixed(tag.as_ref())
}

fn hashed(bytes: &[u8]) -> [u8; KEY] {
    fixed(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn fixed(bytes: &[u8]) -> [u8; KEY] {
    let mut fixed = [0; KEY];
    fixed.copy_from_slice(bytes);
    fixed
}

/// Bytes in base64, as SCRAM has them.
pub fn encoded(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a text in base64.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// A salt that nobody can guess; `None`: the system has no random bytes.
pub fn new_salt() -> Option<[u8; SALT]> {
    let mut salt = [0; SALT];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut salt).ok()?;
    Some(salt)
}

/// A password with its characters as SASLprep has them; one that it has not stays as it is.
fn prepared(password: &str) -> std::borrow::Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(password.into())
}

impl Verifier {
    /// What is kept of a password.
    pub fn of(password: &str, salt: &[u8]) -> Verifier {
        let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
        let mut salted = [0; KEY];
        let prepared = prepared(password);
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            salt,
            prepared.as_bytes(),
            &mut salted,
        );
        Verifier {
            iterations: ITERATIONS,
            salt: salt.to_vec(),
            stored: hashed(&signed(&salted, b"Client Key")),
            server: signed(&salted, b"Server Key"),
        }
    }

    /// A verifier that no password matches, always the same for a name: a client cannot learn that the
    /// role does not exist.
    pub fn of_nobody(secret: &[u8], name: &str) -> Verifier {
        let of = |what: &[u8]| signed(secret, &[what, b"\0", name.as_bytes()].concat());
        let salt = of(b"salt")[..SALT].to_vec();
        Verifier { iterations: ITERATIONS, salt, stored: of(b"stored"), server: of(b"server") }
    }

    /// Reads the text of one; `None`: it is none.
    pub fn read(text: &str) -> Option<Verifier> {
        let [method, first, second] = text.split('$').collect::<Vec<_>>()[..] else { return None };
        let (iterations, salt) = first.split_once(':')?;
        let (stored, server) = second.split_once(':')?;
        let iterations =
            iterations.parse().ok().filter(|own| (1..=ITERATIONS_MAX).contains(own))?;
        let salt = decoded(salt).filter(|own| (1..=SALT_MAX).contains(&own.len()))?;
        let key = |text: &str| <[u8; KEY]>::try_from(decoded(text)?).ok();
        let (stored, server) = (key(stored)?, key(server)?);
        (method == METHOD).then_some(Verifier { iterations, salt, stored, server })
    }

    /// The text that [`Verifier::read`] reads.
    pub fn text(&self) -> String {
        let [salt, stored, server] = [&self.salt[..], &self.stored, &self.server].map(encoded);
        format!("{METHOD}${}:{salt}${stored}:{server}", self.iterations)
    }

    /// Whether it is that of a password.
    pub fn is_of(&self, password: &str) -> bool {
        let mut salted = [0; KEY];
        let Some(iterations) = NonZeroU32::new(self.iterations) else { return false };
        let prepared = prepared(password);
        let bytes = prepared.as_bytes();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &self.salt, bytes, &mut salted);
        signed(&salted, b"Server Key").ct_eq(&self.server).into()
    }

    /// How often a client hashes the password, and with which salt, in base64.
    pub fn asks(&self) -> (u32, String) {
        (self.iterations, encoded(&self.salt))
    }

    /// Whether a client has proved that it knows the password: `said` is what both have said before.
    pub fn is_proved(&self, said: &[u8], proof: &[u8; KEY]) -> bool {
        let signature = signed(&self.stored, said);
        let mut key = [0; KEY];
        for (at, own) in key.iter_mut().enumerate() {
            *own = proof[at] ^ signature[at];
        }
        hashed(&key).ct_eq(&self.stored).into()
    }

    /// What proves to the client that this is the server, in base64.
    pub fn signature(&self, said: &[u8]) -> String {
        encoded(&signed(&self.server, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc_is_proved() {
        let salt = decoded("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap_or_default();
        let verifier = Verifier::of("pencil", &salt);
        let said = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                    r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                    c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = decoded("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap_or_default();
        let mut proof: [u8; KEY] = proof.try_into().unwrap_or([0; KEY]);
        assert!(verifier.is_proved(said.as_bytes(), &proof));
        let signature = verifier.signature(said.as_bytes());
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert!(verifier.is_of("pencil") && !verifier.is_of("pencils"));
        proof[31] ^= 1;
        assert!(!verifier.is_proved(said.as_bytes(), &proof));
        assert!(!verifier.is_proved(b"", &proof));
    }

    #[test]
    fn texts_are_read_again_and_others_are_none() {
        let verifier = Verifier::of("s\u{e9}cret", &[7; SALT]);
        let text = verifier.text();
        assert_eq!(Verifier::read(&text), Some(verifier));
        for wrong in [
            "",
            "secret",
            "md5c8b1b2f4f0e6b0c8b1b2f4f0e6b0c8b1",
            "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
            &text.replace("4096", "0"),
            &text.replace("4096", "99999999"),
            &text.replace("SHA-256", "SHA-1"),
            &format!("{text}$"),
        ] {
            assert_eq!(Verifier::read(wrong), None, "{wrong}");
        }
        // Other characters, of which SASLprep makes the same.
        assert!(Verifier::of("\u{2168}", &[1; SALT]).is_of("IX"));
    }

    #[test]
    fn who_is_nobody_is_always_the_same_nobody() {
        let of = |secret: &[u8], name| Verifier::of_nobody(secret, name);
        assert_eq!(of(b"a", "x"), of(b"a", "x"));
        assert_ne!(of(b"a", "x").asks(), of(b"a", "y").asks());
        assert_ne!(of(b"a", "x").asks(), of(b"b", "x").asks());
        assert!(!of(b"a", "x").is_of(""));
    }
}
