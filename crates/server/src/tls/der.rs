//! Certificates, as far as they are parsed here: the name in one, and the hash that was signed.
//!
//! Source: RFC 5280, section 4.1, and the distinguished encoding of X.690.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const VERSION: u8 = 0xa0;

/// id-at-commonName.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// How a certificate was hashed to be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The next value: its tag, what is in it, and what follows.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (own, rest) = rest.split_at_checked(length)?;
    Some((*tag, own, rest))
}

/// What is in the next value, which has this tag, and what follows.
fn tagged(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, own, rest) = next(bytes)?;
    (tag == wanted).then_some((own, rest))
}

/// What is signed of a certificate, and what follows it there.
fn parts(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (whole, _) = tagged(certificate, SEQUENCE)?;
    tagged(whole, SEQUENCE)
}

/// The common name of the subject, where there is exactly one.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let (signed, _) = parts(certificate)?;
    let rest = match next(signed)? {
        (VERSION, _, rest) => rest,
        _ => signed,
    };
    // Number, algorithm, issuer, validity.
    let rest = (0..4).try_fold(rest, |rest, _| Some(next(rest)?.2))?;
    let (mut subject, _) = tagged(rest, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let (mut set, rest) = tagged(subject, SET)?;
        subject = rest;
        while !set.is_empty() {
            let (attribute, rest) = tagged(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = tagged(attribute, OID)?;
            if kind != COMMON_NAME {
                continue;
            }
            // UTF8String, PrintableString, T61String, IA5String.
            let (tag, text, _) = next(value)?;
            let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'))?;
            let is_plain =
                matches!(tag, 0x0c) || (matches!(tag, 0x13 | 0x14 | 0x16) && text.is_ascii());
            if !is_plain || found.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

/// How it was hashed to be signed.
pub(super) fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (_, rest) = parts(certificate)?;
    let (algorithm, _) = tagged(rest, SEQUENCE)?;
    let (oid, _) = tagged(algorithm, OID)?;
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    match (oid.strip_prefix(RSA), oid.strip_prefix(ECDSA)) {
        // MD5 and SHA-1 count as SHA-256.
        (Some([4 | 5 | 11]), _) | (_, Some([2])) => Some(Hash::Sha256),
        (Some([12]), _) | (_, Some([3])) => Some(Hash::Sha384),
        (Some([13]), _) | (_, Some([4])) => Some(Hash::Sha512),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384};

    use super::*;

    #[test]
    fn the_name_and_the_hash_of_a_certificate_are_found_and_bytes_are_none() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        let mut params = CertificateParams::new(vec!["x.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "here");
        params.distinguished_name.push(DnType::CommonName, "\u{e4}nna");
        let certificate = params.self_signed(&key).unwrap();
        let bytes = certificate.der();
        assert_eq!(common_name(bytes).as_deref(), Some("\u{e4}nna"));
        assert_eq!(signature_hash(bytes), Some(Hash::Sha384));
        for end in 0..bytes.len() {
            assert_eq!(signature_hash(&bytes[..end]), None);
            let _ = common_name(&bytes[..end]);
            for value in [0, 1, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = bytes.to_vec();
                changed[end] = value;
                let _ = (common_name(&changed), signature_hash(&changed));
            }
        }
    }
}
