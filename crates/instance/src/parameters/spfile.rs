//! The server parameter file, DIR/cellar.toml: one `name = value` a line.
//!
//! It is replaced as a whole: written beside, made durable, renamed, the directory made durable.
//! Names that this version does not know are kept as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cellar_storage::replace::replace_file;
use toml::Spanned;

use super::definitions::{self, Value};
use crate::error::{Error, Result};
use crate::roles::hba::Rules;

/// The name of the file in DIR.
pub const FILE_NAME: &str = "cellar.toml";

/// The rules of who may connect: see [`Rules`]. They are changed in the file alone.
const HBA: &str = "hba";

const HEAD: &str = "\
# Parameters of this Cellar instance. Better changed by ALTER SYSTEM SET name = value
# SCOPE = SPFILE (or BOTH); what stands here is in force after the next start.
";

/// What the file holds.
#[derive(Clone, Debug)]
pub struct Spfile {
    path: PathBuf,
    /// Known parameters that are set.
    values: BTreeMap<&'static str, Value>,
    /// Whatever else the file says.
    unknown: toml::Table,
    /// Who may connect, and how.
    rules: Rules,
}

impl Spfile {
    /// A file that does not exist yet and sets nothing.
    pub fn new(directory: &Path) -> Spfile {
        Spfile {
            path: directory.join(FILE_NAME),
            values: BTreeMap::new(),
            unknown: toml::Table::new(),
            rules: Rules::default(),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// 70107 with the line that is wrong; 70110 if it cannot be read.
    pub fn read(directory: &Path) -> Result<Spfile> {
        let mut spfile = Spfile::new(directory);
        let bytes = std::fs::read(&spfile.path)
            .map_err(|error| Error::system("read", &spfile.path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
            spfile.damaged(line, "the text is not UTF-8")
        })?;
        let entries: BTreeMap<Spanned<String>, Spanned<toml::Value>> = toml::from_str(&text)
            .map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                spfile.damaged(line_of(text.as_bytes(), at), error.message())
            })?;
        spfile.rules = Rules::read(&text).map_err(|fault| {
            let line = line_of(text.as_bytes(), fault.at);
            spfile.damaged(line, &fault.why).hint(format!(
                "correct line {line}: hba = [{{ type = 'hostssl', user = 'all', address = 'all', \
                 method = 'scram-sha-256' }}]"
            ))
        })?;
        for (name, value) in entries {
            let line = line_of(text.as_bytes(), name.span().start);
            let name = name.into_inner();
            let Some(definition) = definitions::find(&name) else {
                spfile.unknown.insert(name, value.into_inner());
                continue;
            };
            let parsed = from_toml(definition, value.get_ref())
                .map_err(|error| spfile.damaged(line, "the value is not valid").over(error))?;
            spfile.values.insert(definition.name, parsed);
        }
        Ok(spfile)
    }

    fn damaged(&self, line: usize, why: &str) -> Error {
        let path = self.path.display();
        Error::new(70107, format!("{path} line {line}: {}", why.trim()))
            .hint(format!("correct or delete line {line}; without it the default holds"))
    }

    /// The value that the file sets.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The parameters that the file sets, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }

    /// The names in the file that this version does not know.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.keys().map(String::as_str).filter(|name| *name != HBA)
    }

    /// Who may connect, and how.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A copy that sets `name`, or leaves it to its default.
    #[must_use]
    pub fn with(&self, name: &'static str, value: Option<Value>) -> Spfile {
        let mut changed = self.clone();
        match value {
            Some(value) => changed.values.insert(name, value),
            None => changed.values.remove(name),
        };
        changed
    }

    /// The rules as the file has them now: people write them there while the instance runs.
    fn rules_now(&self) -> Result<Option<toml::Value>> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::system("read", &self.path, &error)),
        };
        let table: toml::Table = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.damaged(line_of(text.as_bytes(), at), error.message())
        })?;
        Ok(table.get(HBA).cloned())
    }

    /// Makes this the durable content of the file, with the rules that it has.
    ///
    /// # Errors
    /// 70107 the file was written meanwhile, and cannot be read; 70110. The old content stands.
    pub fn write(&self) -> Result<()> {
        let mut table = self.unknown.clone();
        table.remove(HBA);
        table.extend(self.rules_now()?.map(|rules| (HBA.to_owned(), rules)));
        for (name, value) in &self.values {
            table.insert((*name).to_owned(), to_toml(value));
        }
        let text = toml::to_string(&table)
            .map_err(|error| Error::new(crate::error::INTERNAL, format!("cellar.toml: {error}")))?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        replace_file(directory, FILE_NAME, format!("{HEAD}{text}").as_bytes())
    }
}

fn line_of(text: &[u8], at: usize) -> usize {
    1 + text.iter().take(at).filter(|byte| **byte == b'\n').count()
}

fn from_toml(definition: &'static definitions::Definition, value: &toml::Value) -> Result<Value> {
    let is_list = definition.kind == definitions::Kind::List;
    match value {
        toml::Value::Array(parts) if is_list => {
            let part = |part: &toml::Value| match part.as_str() {
                Some(text) => definition.path(text),
                None => Err(not_readable(definition, part)),
            };
            parts.iter().map(part).collect::<Result<_>>().map(Value::List)
        }
        toml::Value::String(text) => definition.parse(text),
        toml::Value::Integer(number) if !is_list => definition.parse(&number.to_string()),
        toml::Value::Boolean(flag) if !is_list => definition.parse(&flag.to_string()),
        _ => Err(not_readable(definition, value)),
    }
}

fn not_readable(definition: &definitions::Definition, value: &toml::Value) -> Error {
    let (name, kind) = (definition.name, value.type_str());
    let allowed = definition.allowed();
    let message = format!("invalid value of type {kind} for parameter {name}, must be {allowed}");
    let error = Error::new(96, message);
    match definition.kind {
        definitions::Kind::List => error.hint(format!("write {name} = [\"/dev/disk/by-id/*\"]")),
        _ => error,
    }
}

fn to_toml(value: &Value) -> toml::Value {
    match value {
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Integer(number) => i64::try_from(*number)
            .map_or_else(|_| toml::Value::String(number.to_string()), toml::Value::Integer),
        Value::Size(_) | Value::Choice(_) | Value::Text(_) => {
            toml::Value::String(value.to_string())
        }
        Value::List(parts) => {
            toml::Value::Array(parts.iter().cloned().map(toml::Value::String).collect())
        }
    }
}
