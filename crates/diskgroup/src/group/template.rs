//! Templates: the defaults for new files, one for each file type and as many more as users want.
//!
//! A template that was set is an attribute of the group, `template.NAME`, with the words of
//! `ALTER DISKGROUP ... TEMPLATE` as its value; an empty value is one that was dropped. It is looked
//! at when a file is made: files that are there stay as they are.

use std::collections::BTreeMap;

use crate::base::core::Core;
use crate::disk::lock;
use crate::error::Error;
use crate::group::Group;
use crate::on_disk::label::Redundancy;
use crate::state::{FileType, GroupState, Op, Striping};
use async_recursion::async_recursion as boxed;

/// The prefix of a template's attribute name.
pub(super) const PREFIX: &str = "template.";
/// Longest name of a template.
const NAME_MAX: usize = 30;

/// How many copies a template asks for; what that is depends on the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// One.
    Unprotected,
    /// Two; three in a high redundancy group.
    Mirror,
    /// Three.
    High,
}

impl Protection {
    /// As v$asm_template says it.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Unprotected => "UNPROT",
            Protection::Mirror => "MIRROR",
            Protection::High => "HIGH",
        }
    }

    /// Copies in a group of that redundancy; `None`: such a group has no such files.
    fn copies(self, redundancy: Redundancy) -> Option<u8> {
        match (self, redundancy) {
            (Protection::Unprotected, Redundancy::External | Redundancy::Normal) => Some(1),
            (Protection::Mirror, Redundancy::Normal) => Some(2),
            (Protection::Mirror | Protection::High, Redundancy::High) => Some(3),
            (Protection::High, Redundancy::Normal) => Some(3),
            _ => None,
        }
    }

    fn of(redundancy: Redundancy) -> Protection {
        match redundancy {
            Redundancy::External => Protection::Unprotected,
            Redundancy::Normal => Protection::Mirror,
            Redundancy::High => Protection::High,
        }
    }
}

/// What a template says; `None` leaves it to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateWords {
    /// How many copies.
    pub protection: Option<Protection>,
    /// The striping of its bytes over the extents.
    pub striping: Option<Striping>,
    /// The smallest piece that is repaired as one: 4096 or 8192 bytes.
    pub unit: Option<u32>,
    /// Whether each 4 KiB has a checksum.
    pub checksums: Option<bool>,
    /// The failure group that files are confined to; such a file has one copy. Empty: any.
    pub failgroup: Option<String>,
}

/// A template of a mounted group, with what it comes to there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its name, upper-case.
    pub name: String,
    /// Whether it is one of a file type, which cannot be dropped.
    pub system: bool,
    /// How many copies.
    pub protection: Protection,
    /// The striping of its bytes over the extents.
    pub striping: Striping,
    /// The smallest piece that is repaired as one, in bytes.
    pub unit: u32,
    /// Whether each 4 KiB has a checksum.
    pub checksums: bool,
    /// The failure group that files are confined to.
    pub failgroup: Option<String>,
}

/// Adding a template, or changing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateChange {
    /// ADD: none has the name.
    Add,
    /// MODIFY: attributes that are not given stay.
    Modify,
}

const TYPES: [FileType; 7] = [
    FileType::Archivelog,
    FileType::Controlfile,
    FileType::Datafile,
    FileType::Dumpset,
    FileType::Onlinelog,
    FileType::Parameterfile,
    FileType::Tempfile,
];

fn bad(what: &'static str, value: &str, allowed: &str) -> Error {
    Error::BadValue { what, value: value.to_owned(), allowed: allowed.to_owned() }
}

impl TemplateWords {
    /// What the value of an attribute says.
    pub(super) fn parse(text: &str) -> Result<TemplateWords, Error> {
        const ALLOWED: &str = "unprotected, mirror or high; coarse or fine; unit=4096 or 8192; \
                               checksums=on or off; failgroup=NAME";
        let mut words = TemplateWords::default();
        for word in text.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("unprotected", "") => words.protection = Some(Protection::Unprotected),
                ("mirror", "") => words.protection = Some(Protection::Mirror),
                ("high", "") => words.protection = Some(Protection::High),
                ("coarse", "") => words.striping = Some(Striping::Coarse),
                ("fine", "") => words.striping = Some(Striping::Fine),
                ("unit", "4096") => words.unit = Some(4096),
                ("unit", "8192") => words.unit = Some(8192),
                ("checksums", "on") => words.checksums = Some(true),
                ("checksums", "off") => words.checksums = Some(false),
                ("failgroup", name) if !name.is_empty() => {
                    words.failgroup = Some(name.to_uppercase());
                }
                _ => return Err(bad("template attribute", word, ALLOWED)),
            }
        }
        Ok(words)
    }

    fn text(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.protection.map(|protection| {
            let word = match protection {
                Protection::Unprotected => "unprotected",
                Protection::Mirror => "mirror",
                Protection::High => "high",
            };
            word.to_owned()
        }));
        words.extend(self.striping.map(|striping| {
            let word = if striping == Striping::Fine { "fine" } else { "coarse" };
            word.to_owned()
        }));
        words.extend(self.unit.map(|unit| format!("unit={unit}")));
        words.extend(self.checksums.map(|on| {
            let word = if on { "on" } else { "off" };
            format!("checksums={word}")
        }));
        words.extend(self.failgroup.as_ref().map(|name| format!("failgroup={name}")));
        // A template without attributes exists all the same.
        if words.is_empty() { "coarse".to_owned() } else { words.join(" ") }
    }

    /// The attributes of these, with those of `under` where they are missing.
    fn over(self, under: TemplateWords) -> TemplateWords {
        TemplateWords {
            protection: self.protection.or(under.protection),
            striping: self.striping.or(under.striping),
            unit: self.unit.or(under.unit),
            checksums: self.checksums.or(under.checksums),
            failgroup: self.failgroup.or(under.failgroup).filter(|name| !name.is_empty()),
        }
    }

    /// Copies that a file has in a group.
    pub(super) fn copies(&self, redundancy: Redundancy) -> Option<u8> {
        self.protection.and_then(|protection| protection.copies(redundancy))
    }

    /// Refuses attributes that no file of this group can have.
    fn check(&self, state: &GroupState) -> Result<(), Error> {
        let redundancy = state.header.redundancy;
        if let Some(protection) = self.protection
            && protection.copies(redundancy).is_none()
        {
            let allowed = match redundancy {
                Redundancy::External => "UNPROTECTED, in an external redundancy group",
                Redundancy::Normal => "UNPROTECTED, MIRROR or HIGH",
                Redundancy::High => "MIRROR or HIGH, in a high redundancy group",
            };
            return Err(bad("redundancy of a template", protection.name(), allowed));
        }
        if self.unit.is_some_and(|unit| unit != 4096 && unit != 8192) {
            let unit = self.unit.map(|unit| unit.to_string()).unwrap_or_default();
            return Err(bad("unit", &unit, "4096 or 8192"));
        }
        if let Some(name) = &self.failgroup {
            if !state.disks.values().any(|d| &d.failgroup == name) {
                let known: std::collections::BTreeSet<&str> =
                    state.disks.values().map(|d| d.failgroup.as_str()).collect();
                let known: Vec<&str> = known.into_iter().collect();
                return Err(bad("failure group", name, &known.join(", ")));
            }
            if self.copies(redundancy).is_some_and(|copies| copies > 1) {
                let allowed = "UNPROTECTED: what is confined to one failure group has one copy";
                return Err(bad("a template in one failure group with", "copies", allowed));
            }
        }
        Ok(())
    }
}

/// Templates that were set, by name, upper-case.
fn set_ones(attributes: &BTreeMap<String, String>) -> BTreeMap<String, TemplateWords> {
    let set = attributes.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix(PREFIX)?;
        // Anything a later version may say that this one does not know is left to the group.
        let words = TemplateWords::parse(value).unwrap_or_default();
        (!value.is_empty()).then(|| (name.to_uppercase(), words))
    });
    set.collect()
}

fn is_type(name: &str) -> bool {
    TYPES.iter().any(|file_type| file_type.name() == name)
}

fn name_of(name: &str) -> Result<String, Error> {
    let name = name.to_uppercase();
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '#');
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts && name.len() <= NAME_MAX && name.chars().all(legal) {
        return Ok(name);
    }
    let why = format!("a template has up to {NAME_MAX} letters, digits, _ $ #, a letter first");
    Err(Error::BadName { name, why })
}

/// The attributes of a new file: from the template it names, or else from that of its type.
pub(super) fn words_for(
    core: &Core,
    template: Option<&str>,
    file_type: FileType,
) -> Result<TemplateWords, Error> {
    let mut set = set_ones(&core.state.attributes);
    let of_type = set.remove(file_type.name()).unwrap_or_default();
    let Some(template) = template else { return Ok(of_type) };
    if template.is_empty() {
        return Ok(TemplateWords::default());
    }
    let name = template.to_uppercase();
    match set.remove(&name) {
        Some(words) => Ok(words),
        None if name == file_type.name() => Ok(of_type),
        None if is_type(&name) => Ok(TemplateWords::default()),
        None => Err(Error::NoSuchTemplate { name }),
    }
}

impl Group {
    /// All templates, by name.
    pub fn templates(&self) -> Vec<Template> {
        let core = lock(&self.inner.core);
        let state = &core.state;
        let mut all = set_ones(&state.attributes);
        for file_type in TYPES {
            all.entry(file_type.name().to_owned()).or_default();
        }
        let checksums = state.attributes.get("content.checksum").is_none_or(|v| v == "true");
        let made = all.into_iter().map(|(name, words)| Template {
            system: is_type(&name),
            protection: match (words.protection, &words.failgroup) {
                (Some(protection), _) => protection,
                (None, Some(_)) => Protection::Unprotected,
                (None, None) => Protection::of(state.header.redundancy),
            },
            striping: words.striping.unwrap_or(Striping::Coarse),
            unit: words.unit.unwrap_or(4096),
            checksums: words.checksums.unwrap_or(checksums),
            failgroup: words.failgroup,
            name,
        });
        made.collect()
    }

    /// ADD TEMPLATE, MODIFY TEMPLATE: all of them, or none.
    ///
    /// # Errors
    /// A name is taken, or there is no such template, or the group has no such files.
    #[boxed]
    pub async fn set_templates(
        &self,
        change: TemplateChange,
        templates: &[(String, TemplateWords)],
    ) -> Result<(), Error> {
        let named = |(name, words): &(String, TemplateWords)| Ok((name_of(name)?, words.clone()));
        let templates = templates.iter().map(named).collect::<Result<Vec<_>, Error>>()?;
        self.inner
            .change(move |core| {
                let mut set = set_ones(&core.state.attributes);
                let mut ops = Vec::new();
                for (name, words) in templates {
                    let before = set.get(&name);
                    let there = before.is_some() || is_type(&name);
                    let words = match (change, there) {
                        (TemplateChange::Add, true) => return Err(Error::TemplateExists { name }),
                        (TemplateChange::Modify, false) => {
                            return Err(Error::NoSuchTemplate { name });
                        }
                        _ => words.over(before.cloned().unwrap_or_default()),
                    };
                    words.check(&core.state)?;
                    let attribute = format!("{PREFIX}{}", name.to_lowercase());
                    ops.push(Op::Attribute { name: attribute, value: words.text() });
                    // One that is named twice is changed twice.
                    set.insert(name, words);
                }
                Ok(((), ops))
            })
            .await
    }

    /// DROP TEMPLATE: all of them, or none.
    ///
    /// # Errors
    /// There is none, or it is one of a file type.
    #[boxed]
    pub async fn drop_templates(&self, names: &[String]) -> Result<(), Error> {
        let names = names.iter().map(|name| name_of(name)).collect::<Result<Vec<_>, _>>()?;
        self.inner
            .change(move |core| {
                let set = set_ones(&core.state.attributes);
                let mut ops = Vec::new();
                for name in names {
                    if is_type(&name) {
                        return Err(Error::SystemTemplate { name });
                    }
                    if !set.contains_key(&name) {
                        return Err(Error::NoSuchTemplate { name });
                    }
                    let name = format!("{PREFIX}{}", name.to_lowercase());
                    ops.push(Op::Attribute { name, value: String::new() });
                }
                Ok(((), ops))
            })
            .await
    }
}
