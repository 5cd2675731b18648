//! Names of disk groups, disks and failure groups.

use super::NameError;

/// Longest name of a group, disk or failure group, in characters and bytes.
pub const IDENT_MAX: usize = 30;

fn checked(kind: &'static str, value: &str) -> Result<String, NameError> {
    let bad = |reason| NameError::Ident { kind, value: value.to_owned(), reason };
    let Some(first) = value.chars().next() else {
        return Err(bad("it is empty"));
    };
    if !first.is_ascii_alphabetic() {
        return Err(bad("it does not start with a letter"));
    }
    if !value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '#')) {
        return Err(bad("it has a character that is not allowed"));
    }
    if value.len() > IDENT_MAX {
        return Err(bad("it is too long"));
    }
    Ok(value.to_ascii_uppercase())
}

macro_rules! ident {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks the name and makes it upper-case.
            pub fn new(value: &str) -> Result<Self, NameError> {
                checked($kind, value).map(Self)
            }

            /// The name, upper-case.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(value: &str) -> Result<Self, NameError> {
                Self::new(value)
            }
        }
    };
}

ident! {
    /// The name of a disk group, as in `+DATA`.
    GroupName, "disk group"
}
ident! {
    /// The name of a disk within its group, as in `DATA_0003`.
    DiskName, "disk"
}
ident! {
    /// The name of a failure group within its group.
    FailGroupName, "failure group"
}

impl DiskName {
    /// The name a disk gets that was not given one: `DATA_0003`.
    ///
    /// The group's name is cut where the whole would be too long.
    #[must_use]
    pub fn numbered(group: &GroupName, disk: u16) -> DiskName {
        let number = format!("_{disk:04}");
        let keep = group.as_str().len().min(IDENT_MAX - number.len());
        DiskName(format!("{}{number}", &group.as_str()[..keep]))
    }
}

impl From<&DiskName> for FailGroupName {
    /// A disk without a failure group is one of its own name.
    fn from(disk: &DiskName) -> FailGroupName {
        FailGroupName(disk.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_upper_case() {
        assert_eq!(GroupName::new("data").unwrap().as_str(), "DATA");
        assert_eq!(DiskName::new("d_$#9").unwrap().to_string(), "D_$#9");
        assert!("A".repeat(30).parse::<GroupName>().is_ok());
        for bad in ["", "9a", "_a", "a-b", "a b", "ä", "a/b", &"a".repeat(31)] {
            assert!(FailGroupName::new(bad).is_err(), "{bad}");
        }
        assert_eq!(
            GroupName::new("9lives").unwrap_err().to_string(),
            "\"9lives\" is no disk group name: it does not start with a letter; a name starts \
             with a letter and has up to 30 letters, digits, _, $ and #"
        );
    }

    #[test]
    fn disks_are_numbered_within_the_length() {
        let group = GroupName::new("data").unwrap();
        assert_eq!(DiskName::numbered(&group, 3).as_str(), "DATA_0003");
        let long = GroupName::new(&"g".repeat(30)).unwrap();
        let name = DiskName::numbered(&long, 65_535);
        assert_eq!(DiskName::new(name.as_str()), Ok(name));
    }
}
