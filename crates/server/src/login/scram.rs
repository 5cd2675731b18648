//! SCRAM-SHA-256: the client proves that it knows the password, and the server that it has what is stored
//! of it.
//!
//! Source: RFC 5802, RFC 7677, and "SASL Authentication" in PostgreSQL's manual.

use bytes::Bytes;
use cellar_instance::roles::scram::{KEY, METHOD, Verifier, decoded, encoded};

use crate::error::{Ended, Refusal};
use crate::wire::backend::Out;
use crate::wire::body::Body;
use crate::wire::frames::Frames;
use crate::wire::frontend::Message;

/// The same, bound to the connection by the certificate of the server.
const PLUS: &str = "SCRAM-SHA-256-PLUS";

/// How it is bound.
const BINDING: &str = "p=tls-server-end-point";

/// Length of the nonce that the server adds, so that no two proofs are the same.
const NONCE: usize = 18;

/// What a client says first.
#[derive(Debug, PartialEq, Eq)]
struct First {
    /// What comes before, which its last message repeats.
    head: String,
    nonce: String,
    /// The rest of it, of which the proof is made.
    bare: String,
}

fn malformed(why: &str) -> Refusal {
    Refusal::protocol(format!("malformed SCRAM message: {why}"))
}

/// Has a client prove that it knows a password; whether it does. `endpoint`: what both ends know of the certificate
/// of the server.
///
/// # Errors
/// What the client says is none of the protocol; it has gone.
pub(super) async fn proved(
    frames: &mut Frames,
    out: &mut Out,
    verifier: &Verifier,
    endpoint: Option<&Bytes>,
) -> Result<bool, Ended> {
    match endpoint {
        Some(_) => out.prove_by(&[PLUS, METHOD]),
        None => out.prove_by(&[METHOD]),
    }
    out.flush().await?;
    let (method, said) = chosen(said(frames).await?)?;
    let first = first(&method, &said, endpoint.is_some())?;
    let nonce = nonce(&first.nonce)?;
    let (iterations, salt) = verifier.asks();
    let asked = format!("r={nonce},s={salt},i={iterations}");
    out.proof(false, &asked);
    out.flush().await?;
    let last = text(&said_bytes(frames).await?)?;
    let (without_proof, proof) =
        last.rsplit_once(",p=").ok_or_else(|| malformed("it has no proof"))?;
    let bound = match (method == PLUS, endpoint) {
        (true, Some(endpoint)) => encoded(&[first.head.as_bytes(), endpoint].concat()),
        _ => encoded(first.head.as_bytes()),
    };
    let proof = decoded(proof).and_then(|proof| <[u8; KEY]>::try_from(proof).ok());
    let proof = proof.ok_or_else(|| malformed("its proof is none"))?;
    if !without_proof.starts_with("c=") {
        return Err(malformed("it does not say to what it is bound").into());
    }
    let wanted = format!("c={bound},r={nonce}");
    // A proof from another connection, or one that was overheard, is worth nothing.
    if without_proof != wanted && !without_proof.starts_with(&format!("{wanted},")) {
        return Ok(false);
    }
    let all = format!("{},{asked},{without_proof}", first.bare);
    if !verifier.is_proved(all.as_bytes(), &proof) {
        return Ok(false);
    }
    out.proof(true, &format!("v={}", verifier.signature(all.as_bytes())));
    Ok(true)
}

async fn said_bytes(frames: &mut Frames) -> Result<Bytes, Ended> {
    match frames.next().await? {
        Message::Password(bytes) => Ok(bytes),
        _ => Err(Refusal::protocol("expected SASL response").into()),
    }
}

async fn said(frames: &mut Frames) -> Result<Body, Ended> {
    said_bytes(frames).await.map(Body::new)
}

fn text(bytes: &[u8]) -> Result<String, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("it is no text"))?;
    match text.contains('\0') {
        true => Err(malformed("it has a NUL")),
        false => Ok(text.to_owned()),
    }
}

/// The method that a client has chosen, and what it says first.
fn chosen(mut body: Body) -> Result<(String, String), Refusal> {
    let method = body.text()?;
    let said = body.value()?.ok_or_else(|| malformed("it says nothing"))?;
    body.finish()?;
    Ok((method, text(&said)?))
}

/// Reads what a client says first. `has_binding`: it was offered to bind its proof.
fn first(method: &str, said: &str, has_binding: bool) -> Result<First, Refusal> {
    if method != METHOD && !(method == PLUS && has_binding) {
        return Err(Refusal::protocol("client selected an invalid SASL authentication mechanism"));
    }
    let mut parts = said.splitn(3, ',');
    let (Some(flag), Some(other), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(malformed("it has no beginning"));
    };
    match (flag, method == PLUS) {
        (BINDING, true) | ("n", false) => {}
        ("y", false) if !has_binding => {}
        ("y", false) => {
            // Somebody in between has removed the offer.
            let text = "SCRAM channel binding negotiation error: the client supports it, and thinks that the \
                        server does not";
            return Err(Refusal::new("28000", text));
        }
        _ => return Err(malformed("its binding does not fit the method")),
    }
    if !other.is_empty() {
        return Err(Refusal::new(
            "0A000",
            "client uses authorization identity, but it is not supported",
        ));
    }
    if bare.starts_with("m=") {
        return Err(Refusal::new("0A000", "client requires an unsupported SCRAM extension"));
    }
    // The name in it is ignored: that of the connection counts.
    let mut values = bare.splitn(3, ',');
    let name = values.next().and_then(|own| own.strip_prefix("n="));
    let nonce = values.next().and_then(|own| own.strip_prefix("r="));
    let nonce = name.and(nonce).filter(|own| !own.is_empty());
    let nonce = nonce.ok_or_else(|| malformed("it has no name or nonce"))?;
    if !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(malformed("its nonce has characters that cannot be printed"));
    }
    let (head, nonce, bare) = (format!("{flag},{other},"), nonce.to_owned(), bare.to_owned());
    Ok(First { head, nonce, bare })
}

fn nonce(of_client: &str) -> Result<String, Refusal> {
    let mut bytes = [0; NONCE];
    getrandom::fill(&mut bytes)
        .map_err(|_| Refusal::new("58000", "the system has no random bytes"))?;
    Ok(format!("{of_client}{}", encoded(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_message_is_read_and_what_is_none_is_refused() {
        let state = |method, said, has_binding| {
            first(method, said, has_binding).map(|own| own.head).map_err(|own| own.sqlstate)
        };
        assert_eq!(state(METHOD, "n,,n=,r=abc", true), Ok("n,,".to_owned()));
        assert_eq!(state(METHOD, "y,,n=x,r=abc", false), Ok("y,,".to_owned()));
        let bound = "p=tls-server-end-point,,n=,r=abc";
        assert_eq!(state(PLUS, bound, true), Ok("p=tls-server-end-point,,".to_owned()));
        for (method, said, has_binding, wanted) in [
            (METHOD, "y,,n=x,r=abc", true, "28000"),
            (PLUS, bound, false, "08P01"),
            (METHOD, bound, true, "08P01"),
            (PLUS, "n,,n=,r=abc", true, "08P01"),
            (PLUS, "p=tls-unique,,n=,r=abc", true, "08P01"),
            ("PLAIN", "n,,n=,r=abc", true, "08P01"),
            (METHOD, "n,a=root,n=,r=abc", true, "0A000"),
            (METHOD, "n,,m=x,n=,r=abc", true, "0A000"),
            (METHOD, "n,,n=,r=", true, "08P01"),
            (METHOD, "n,,n=,r=a b", true, "08P01"),
            (METHOD, "n,,r=abc", true, "08P01"),
            (METHOD, "n,", true, "08P01"),
            (METHOD, "", true, "08P01"),
        ] {
            assert_eq!(state(method, said, has_binding), Err(wanted), "{method} {said}");
        }
    }

    #[test]
    fn no_two_nonces_are_the_same() {
        assert_ne!(nonce("a").ok(), nonce("a").ok());
    }
}
