//! The rules of client authentication, `hba` in DIR/cellar.toml. As in PostgreSQL's `pg_hba.conf`, the
//! first rule that matches a connection decides; if none matches, the connection is refused.
//!
//! ```toml
//! [[hba]]
//! type = "hostssl"
//! database = "all"
//! user = ["anna", "+readers"]
//! address = "10.0.0.0/8"
//! method = "scram-sha-256"
//! ```

use std::net::IpAddr;

use serde::Deserialize;
use toml::Spanned;

/// The kinds of connection that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the socket in the directory.
    Local,
    /// Over TCP.
    Host,
    /// Over TCP with TLS.
    HostSsl,
    /// Over TCP without TLS.
    HostPlain,
}

/// How a client proves that it may use a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The kernel says that the client is the system user with the name of the role.
    Peer,
    /// By a password.
    Scram,
    /// By a certificate for the name of the role.
    Cert,
    /// Not at all.
    Reject,
}

/// Addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Net {
    All,
    Loopback,
    Part(IpAddr, u8),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    way: Way,
    databases: Vec<String>,
    users: Vec<String>,
    net: Net,
    method: Method,
}

/// All rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// Who wants to connect.
pub struct Asks<'a> {
    /// From where; `None`: by the socket in the directory.
    pub address: Option<IpAddr>,
    /// With TLS.
    pub is_encrypted: bool,
    /// As which role.
    pub user: &'a str,
    /// To which database.
    pub database: &'a str,
    /// Whether that role is a member of another one.
    pub is_member: &'a dyn Fn(&str) -> bool,
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "type")]
    way: String,
    #[serde(default)]
    database: Names,
    #[serde(default)]
    user: Names,
    #[serde(default)]
    address: Option<String>,
    method: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Many(Vec<String>),
}

impl Default for Names {
    fn default() -> Names {
        Names::One(ALL.to_owned())
    }
}

const ALL: &str = "all";

/// What of the file is about rules.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    hba: Option<Vec<Spanned<Written>>>,
}

/// A fault: the byte where it is, what it is, and what to do.
pub struct Fault {
    /// Where in the text.
    pub at: usize,
    /// What is wrong.
    pub why: String,
}

impl Default for Rules {
    /// By the socket and from this machine with a password; from others with TLS besides.
    fn default() -> Rules {
        let rule = |way, net| Rule {
            way,
            databases: vec![ALL.to_owned()],
            users: vec![ALL.to_owned()],
            net,
            method: Method::Scram,
        };
        Rules(vec![
            rule(Way::Local, Net::All),
            rule(Way::Host, Net::Loopback),
            rule(Way::HostSsl, Net::All),
        ])
    }
}

impl Rules {
    /// Reads the rules of a text; without any the default holds.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(text: &str) -> Result<Rules, Fault> {
        let file: File = toml::from_str(text).map_err(|error| Fault {
            at: error.span().map_or(0, |span| span.start),
            why: error.message().to_owned(),
        })?;
        let Some(written) = file.hba else { return Ok(Rules::default()) };
        let rules = written.into_iter().map(|own| {
            let at = own.span().start;
            rule(own.into_inner()).map_err(|why| Fault { at, why })
        });
        rules.collect::<Result<_, _>>().map(Rules)
    }

    /// How a client that wants to connect must authenticate; `None`: no rule matches.
    pub fn method(&self, asks: &Asks<'_>) -> Option<Method> {
        self.0.iter().find(|rule| rule.is_for(asks)).map(|rule| rule.method)
    }
}

impl Rule {
    fn is_for(&self, asks: &Asks<'_>) -> bool {
        let comes = match (self.way, asks.address) {
            (Way::Local, from) => from.is_none(),
            (_, None) => false,
            (Way::Host, Some(_)) => true,
            (Way::HostSsl, Some(_)) => asks.is_encrypted,
            (Way::HostPlain, Some(_)) => !asks.is_encrypted,
        };
        let is_of = |user: &String| match user.strip_prefix('+') {
            Some(role) => role == asks.user || (asks.is_member)(role),
            None => user == ALL || user == asks.user,
        };
        comes
            && asks.address.is_none_or(|address| self.net.has(address.to_canonical()))
            && self.databases.iter().any(|own| own == ALL || own == asks.database)
            && self.users.iter().any(is_of)
    }
}

impl Net {
    fn has(self, address: IpAddr) -> bool {
        match self {
            Net::All => true,
            Net::Loopback => address.is_loopback(),
            Net::Part(own, bits) => match (own, address) {
                (IpAddr::V4(own), IpAddr::V4(other)) => {
                    same(own.to_bits().into(), other.to_bits().into(), 32, bits)
                }
                (IpAddr::V6(own), IpAddr::V6(other)) => {
                    same(own.to_bits(), other.to_bits(), 128, bits)
                }
                _ => false,
            },
        }
    }
}

/// Whether two numbers of so many bits begin with the same.
fn same(one: u128, other: u128, width: u32, bits: u8) -> bool {
    let rest = width.saturating_sub(u32::from(bits));
    one.checked_shr(rest).unwrap_or(0) == other.checked_shr(rest).unwrap_or(0)
}

fn rule(written: Written) -> Result<Rule, String> {
    let way = match written.way.as_str() {
        "local" => Way::Local,
        "host" => Way::Host,
        "hostssl" => Way::HostSsl,
        "hostnossl" => Way::HostPlain,
        other => {
            return Err(format!("type \"{other}\" is none of local, host, hostssl, hostnossl"));
        }
    };
    let method = match written.method.as_str() {
        "peer" => Method::Peer,
        "scram-sha-256" => Method::Scram,
        "cert" => Method::Cert,
        "reject" => Method::Reject,
        other => {
            return Err(format!("method \"{other}\" is none of peer, scram-sha-256, cert, reject"));
        }
    };
    if method == Method::Cert && way != Way::HostSsl {
        return Err("method \"cert\" is of type hostssl alone: certificates come with TLS".into());
    }
    let net = match (way, written.address.as_deref()) {
        (Way::Local, Some(_)) => return Err("type \"local\" has no address".into()),
        (_, None | Some("all")) => Net::All,
        (_, Some("loopback")) => Net::Loopback,
        (_, Some(text)) => part(text).ok_or_else(|| {
            format!("address \"{text}\" is none: all, loopback, 10.0.0.5, 10.0.0.0/8")
        })?,
    };
    let names = |names| match names {
        Names::One(one) => Ok(vec![one]),
        Names::Many(many) if many.is_empty() => Err("an empty list fits nobody".to_owned()),
        Names::Many(many) => Ok(many),
    };
    let (databases, users) = (names(written.database)?, names(written.user)?);
    Ok(Rule { way, databases, users, net, method })
}

fn part(text: &str) -> Option<Net> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse().ok().filter(|own| *own <= most)?,
        None => most,
    };
    Some(Net::Part(address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(rules: &Rules, from: Option<&str>, is_encrypted: bool, user: &str) -> Option<Method> {
        let address = from.and_then(|text| text.parse().ok());
        let is_member = |role: &str| role == "readers" && user == "anna";
        let asks = Asks { address, is_encrypted, user, database: "cellar", is_member: &is_member };
        rules.method(&asks)
    }

    #[test]
    fn without_rules_others_need_a_password_and_from_elsewhere_tls() {
        let rules = Rules::default();
        assert_eq!(method(&rules, None, false, "a"), Some(Method::Scram));
        assert_eq!(method(&rules, Some("127.0.0.1"), false, "a"), Some(Method::Scram));
        assert_eq!(method(&rules, Some("::ffff:127.0.0.1"), false, "a"), Some(Method::Scram));
        assert_eq!(method(&rules, Some("10.0.0.1"), true, "a"), Some(Method::Scram));
        assert_eq!(method(&rules, Some("10.0.0.1"), false, "a"), None);
        assert_eq!(Rules::read("scan_depth = 8").ok(), Some(rules));
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let text = "hba = [
            { type = 'host', user = 'eve', method = 'reject' },
            { type = 'hostssl', address = '10.1.0.0/16', user = ['bob', '+readers'], method = 'cert' },
            { type = 'host', address = '10.0.0.0/8', method = 'scram-sha-256' },
            { type = 'local', method = 'peer' },
        ]";
        let Ok(rules) = Rules::read(text) else { panic!("they are rules") };
        assert_eq!(method(&rules, Some("10.1.2.3"), true, "eve"), Some(Method::Reject));
        assert_eq!(method(&rules, Some("10.1.2.3"), true, "anna"), Some(Method::Cert));
        assert_eq!(method(&rules, Some("10.1.2.3"), true, "carl"), Some(Method::Scram));
        assert_eq!(method(&rules, Some("10.1.2.3"), false, "bob"), Some(Method::Scram));
        assert_eq!(method(&rules, Some("11.1.2.3"), true, "bob"), None);
        assert_eq!(method(&rules, Some("fe80::1"), true, "bob"), None);
        assert_eq!(method(&rules, None, false, "bob"), Some(Method::Peer));
        assert_eq!(method(&Rules(Vec::new()), None, false, "bob"), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, words) in [
            ("hba = [{ type = 'tcp', method = 'peer' }]", "hostnossl"),
            ("hba = [{ type = 'host', method = 'md5' }]", "scram-sha-256"),
            ("hba = [{ type = 'host', method = 'trust' }]", "scram-sha-256"),
            ("hba = [{ type = 'host', method = 'cert' }]", "hostssl alone"),
            ("hba = [{ type = 'local', address = 'all', method = 'peer' }]", "no address"),
            ("hba = [{ type = 'host', address = '10.0.0.0/33', method = 'peer' }]", "10.0.0.0/8"),
            ("hba = [{ type = 'host', user = [], method = 'peer' }]", "empty list"),
            ("hba = [{ type = 'host', uesr = 'x', method = 'peer' }]", "uesr"),
            ("hba = [{ type = 'host' }]", "method"),
            ("hba = 5", "invalid type"),
        ] {
            let found = Rules::read(&format!("# first\n\n{text}")).err();
            let (at, why) = found.map_or((0, String::new()), |fault| (fault.at, fault.why));
            assert!(why.contains(words) && at > 8, "{text}: {why} at {at}");
        }
    }
}
