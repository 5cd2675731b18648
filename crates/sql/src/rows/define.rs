//! A table in the heap as CREATE TABLE defines it: its constraints, and its column options besides types.

use cellar_instance::catalog::{
    Check, Constraint, Identity, Index, IndexColumn, RowTable, SequenceType, name,
};
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, CreateTable, DataType, Expr, GeneratedAs, Ident,
    SequenceOptions as SqlOptions, TableConstraint,
};

use super::foreign_key::NewForeignKey;
use super::naming::free_name;
use super::sequence::SequenceOptions;
use crate::error::Error;
use crate::walk;

/// What a statement says of a table in the heap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definition {
    /// The names of columns, in their order.
    names: Vec<String>,
    /// Columns that are never NULL.
    pub not_null: Vec<usize>,
    /// DEFAULTs of columns, as written.
    pub defaults: Vec<(usize, String)>,
    keys: Vec<Key>,
    checks: Vec<Check>,
    /// Sequences to create for columns.
    pub sequences: Vec<NewSequence>,
    /// Foreign keys.
    pub foreign: Vec<NewForeignKey>,
}

/// A sequence that is made for a column.
#[derive(Clone, Debug)]
pub(crate) struct NewSequence {
    /// Which column, from 0.
    pub column: usize,
    /// How an identity column gets its values.
    pub identity: Option<Identity>,
    /// The options given for it.
    pub options: SequenceOptions,
    /// Its name, if given.
    pub name: Option<String>,
}

#[derive(Clone, Debug)]
struct Key {
    name: Option<String>,
    columns: Vec<usize>,
    constraint: Constraint,
}

/// The name that an identifier stands for.
pub(crate) fn name_of(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Takes out of a CREATE TABLE what DataFusion cannot represent; `None`: there is nothing of that kind.
///
/// # Errors
/// 03001 not supported yet, 00904 no such column, 02260 a second primary key.
pub(crate) fn defined(create: &mut CreateTable) -> Result<Option<Definition>, Error> {
    let names: Vec<String> = create.columns.iter().map(|column| name_of(&column.name)).collect();
    let mut found = Definition { names, ..Definition::default() };
    let table = create.name.0.last().and_then(|name| name.as_ident()).map(name_of);
    let table = table.unwrap_or_default();
    for (at, column) in create.columns.iter_mut().enumerate() {
        found.take_column(at, column, &table)?;
    }
    for constraint in std::mem::take(&mut create.constraints) {
        found.take_constraint(constraint, &table)?;
    }
    let is_plain = found.not_null.is_empty()
        && found.defaults.is_empty()
        && found.keys.is_empty()
        && found.checks.is_empty()
        && found.sequences.is_empty()
        && found.foreign.is_empty();
    Ok((!is_plain).then_some(found))
}

/// What an ALTER TABLE adds to a table with these columns: a constraint, or a column, the last of `names`.
///
/// # Errors
/// As of [`defined`].
pub(crate) fn added(
    table: &str,
    names: Vec<String>,
    column: Option<&mut ColumnDef>,
    constraint: Option<TableConstraint>,
) -> Result<Definition, Error> {
    let at = names.len().saturating_sub(1);
    let mut found = Definition { names, ..Definition::default() };
    if let Some(column) = column {
        found.take_column(at, column, table)?;
    }
    if let Some(constraint) = constraint {
        found.take_constraint(constraint, table)?;
    }
    Ok(found)
}

impl Definition {
    fn take_column(&mut self, at: usize, column: &mut ColumnDef, table: &str) -> Result<(), Error> {
        if let Some((data_type, of)) = serial(&column.data_type) {
            column.data_type = data_type;
            let options = SequenceOptions { of: Some(of), ..SequenceOptions::default() };
            self.not_null.push(at);
            self.sequences.push(NewSequence { column: at, identity: None, options, name: None });
        }
        for option in std::mem::take(&mut column.options) {
            let name = option.name.as_ref().map(name_of);
            match option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => self.not_null.push(at),
                ColumnOption::Default(value) => self.defaults.push((at, value.to_string())),
                ColumnOption::PrimaryKey(key) => {
                    refuse_options(&key.to_string())?;
                    self.add_key(name, vec![at], Constraint::Primary)?;
                }
                ColumnOption::Unique(key) => {
                    refuse_options(&key.to_string())?;
                    self.add_key(name, vec![at], Constraint::Unique)?;
                }
                ColumnOption::Check(check) => self.add_check(name, check, table),
                ColumnOption::ForeignKey(key) => {
                    self.foreign.push(NewForeignKey::of(name, vec![at], key)?);
                }
                ColumnOption::Generated {
                    generated_as: kind @ (GeneratedAs::Always | GeneratedAs::ByDefault),
                    sequence_options,
                    generation_expr: None,
                    ..
                } => {
                    let options = sequence_options.unwrap_or_default();
                    self.not_null.push(at);
                    self.sequences.push(identity(at, kind, &options)?);
                }
                other => {
                    let what = format!("{other} of column \"{}\"", self.names[at]);
                    return Err(Error::not_yet(what).next("leave it out"));
                }
            }
        }
        let own = self.sequences.iter().filter(|sequence| sequence.column == at).count();
        let has_default = self.defaults.iter().any(|(own, _)| *own == at);
        if own > 1 || (own == 1 && has_default) {
            let name = &self.names[at];
            let text =
                format!("column \"{name}\" has more than one of DEFAULT, serial and identity");
            return Err(Error::new(957, "42601", text).next("leave all but one out"));
        }
        Ok(())
    }

    fn take_constraint(&mut self, constraint: TableConstraint, table: &str) -> Result<(), Error> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse_options(&key.to_string())?;
                let columns = self.columns_of(&key.columns)?;
                self.add_key(key.name.as_ref().map(name_of), columns, Constraint::Primary)
            }
            TableConstraint::Unique(key) => {
                refuse_options(&key.to_string())?;
                let columns = self.columns_of(&key.columns)?;
                self.add_key(key.name.as_ref().map(name_of), columns, Constraint::Unique)
            }
            TableConstraint::Check(check) => {
                let name = check.name.as_ref().map(name_of);
                self.add_check(name, check, table);
                Ok(())
            }
            TableConstraint::ForeignKey(key) => {
                let columns = self.named(&key.columns)?;
                let name = key.name.as_ref().map(name_of);
                self.foreign.push(NewForeignKey::of(name, columns, key)?);
                Ok(())
            }
            other => Err(Error::not_yet(format!("the constraint {other}")).next("leave it out")),
        }
    }

    fn columns_of(
        &self,
        columns: &[datafusion::sql::sqlparser::ast::IndexColumn],
    ) -> Result<Vec<usize>, Error> {
        let position = |column: &datafusion::sql::sqlparser::ast::IndexColumn| {
            let Expr::Identifier(ident) = &column.column.expr else {
                let what = format!("a key of an expression: {}", column.column.expr);
                return Err(Error::not_yet(what).next("name a column"));
            };
            let name = name_of(ident);
            self.names.iter().position(|own| *own == name).ok_or_else(|| {
                Error::new(904, "42703", format!("column \"{name}\" of the key does not exist"))
                    .of_name([&*name])
                    .next(format!("the columns are {}", self.names.join(", ")))
            })
        };
        columns.iter().map(position).collect()
    }

    /// The columns of a foreign key.
    fn named(&self, columns: &[Ident]) -> Result<Vec<usize>, Error> {
        let position = |ident: &Ident| {
            let name = name_of(ident);
            self.names.iter().position(|own| *own == name).ok_or_else(|| {
                let text = format!("column \"{name}\" of the foreign key does not exist");
                Error::new(904, "42703", text)
                    .of_name([&*name])
                    .next(format!("the columns are {}", self.names.join(", ")))
            })
        };
        columns.iter().map(position).collect()
    }

    fn add_key(
        &mut self,
        name: Option<String>,
        columns: Vec<usize>,
        constraint: Constraint,
    ) -> Result<(), Error> {
        if constraint == Constraint::Primary {
            if self.keys.iter().any(|key| key.constraint == Constraint::Primary) {
                let text = "a table can have only one primary key";
                return Err(
                    Error::new(2260, "42P16", text).next("make the other one UNIQUE NOT NULL")
                );
            }
            self.not_null.extend(&columns);
        }
        let mut twice = columns.clone();
        twice.sort_unstable();
        twice.dedup();
        if twice.len() < columns.len() {
            return Err(Error::new(957, "42701", "a column is twice in a key").next("name it once"));
        }
        self.keys.push(Key { name, columns, constraint });
        Ok(())
    }

    fn add_check(&mut self, name: Option<String>, check: CheckConstraint, table: &str) {
        let name = name.or_else(|| check.name.as_ref().map(name_of));
        let mut condition = *check.expr;
        // CHECK has parentheses of its own.
        while let Expr::Nested(inner) = condition {
            condition = *inner;
        }
        take_table_away(&mut condition, table);
        // The default name is made once the table's is known, with the column's if the check is on one only.
        let name = name.unwrap_or_else(|| match &self.columns_in(&condition)[..] {
            [column] => format!("\u{1}{column}"),
            _ => "\u{1}".to_owned(),
        });
        self.checks.push(Check { name, condition: condition.to_string() });
    }

    /// The columns that a condition names, each once.
    fn columns_in(&self, condition: &Expr) -> Vec<String> {
        let mut found = Vec::new();
        walk::each_expr(condition, |expr| {
            if let Expr::Identifier(ident) = expr {
                let name = name_of(ident);
                if self.names.contains(&name) && !found.contains(&name) {
                    found.push(name);
                }
            }
        });
        found
    }

    /// Its indexes and checks, with PostgreSQL's default names where none is given. `is_free`: nothing has
    /// this name; `known`: the constraints the table has.
    pub fn rows(&self, table: &str, is_free: &dyn Fn(&str) -> bool, known: &[String]) -> RowTable {
        let mut taken: Vec<String> = Vec::new();
        let index = |key: &Key| {
            let names: Vec<&str> = key.columns.iter().map(|at| self.names[*at].as_str()).collect();
            let (columns, label) = match key.constraint {
                Constraint::Primary => (String::new(), "pkey"),
                Constraint::Unique => (names.join("_"), "key"),
            };
            let said = key.name.as_ref().map(|said| name::beside(table, said));
            let name = said.unwrap_or_else(|| {
                let free = |name: &str| is_free(name) && !taken.iter().any(|own| own == name);
                free_name((table, &columns, label), free)
            });
            taken.push(name.clone());
            let columns = key.columns.iter();
            let columns = columns.map(|column| IndexColumn { column: *column, descending: false });
            let (is_unique, constraint) = (true, Some(key.constraint));
            Index { object: 0, name, columns: columns.collect(), is_unique, constraint, number: 0 }
        };
        let mut keys = self.keys.clone();
        // The primary key is the first index: lookups try it first.
        keys.sort_by_key(|key| key.constraint != Constraint::Primary);
        let indexes = keys.iter().map(index).collect();
        let mut named: Vec<String> = known.to_vec();
        let check = |check: &Check| {
            let name = match check.name.strip_prefix('\u{1}') {
                Some(column) => {
                    let own = name::parts(table).1;
                    free_name((own, column, "check"), |name| !named.iter().any(|own| own == name))
                }
                None => check.name.clone(),
            };
            named.push(name.clone());
            Check { name, condition: check.condition.clone() }
        };
        let checks = self.checks.iter().map(check).collect();
        RowTable { indexes, checks, ..RowTable::plain(0) }
    }
}

/// The type that `serial` and its kin stand for.
fn serial(data_type: &DataType) -> Option<(DataType, SequenceType)> {
    let DataType::Custom(name, modifiers) = data_type else { return None };
    if !modifiers.is_empty() {
        return None;
    }
    match name.to_string().to_ascii_lowercase().as_str() {
        "smallserial" | "serial2" => Some((DataType::SmallInt(None), SequenceType::Smallint)),
        "serial" | "serial4" => Some((DataType::Integer(None), SequenceType::Integer)),
        "bigserial" | "serial8" => Some((DataType::BigInt(None), SequenceType::Bigint)),
        _ => None,
    }
}

/// The sequence of an identity column.
///
/// # Errors
/// A value that is no whole number.
pub(crate) fn identity(
    column: usize,
    kind: GeneratedAs,
    said: &[SqlOptions],
) -> Result<NewSequence, Error> {
    let number = |expr: &Expr| {
        let text = expr.to_string();
        let wrong = || Error::syntax(format!("{text} is no whole number of 64 bits"));
        text.parse::<i64>().map_err(|_| wrong())
    };
    let mut options = SequenceOptions::default();
    for option in said {
        match option {
            SqlOptions::IncrementBy(value, _) => options.increment = Some(number(value)?),
            SqlOptions::MinValue(value) => {
                options.least = Some(value.as_ref().map(number).transpose()?);
            }
            SqlOptions::MaxValue(value) => {
                options.most = Some(value.as_ref().map(number).transpose()?);
            }
            SqlOptions::StartWith(value, _) => options.start = Some(number(value)?),
            SqlOptions::Cache(value) => options.cache = Some(number(value)?),
            // The parser's flag says NO CYCLE.
            SqlOptions::Cycle(no) => options.cycles = Some(!no),
        }
    }
    let identity = match kind {
        GeneratedAs::Always => Identity::Always,
        _ => Identity::Default,
    };
    Ok(NewSequence { column, identity: Some(identity), options, name: None })
}

/// Names columns without their table, which may be renamed later.
fn take_table_away(condition: &mut Expr, table: &str) {
    walk::map_exprs(condition, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [own, column] = &parts[..]
            && name_of(own) == name::parts(table).1
        {
            *expr = Expr::Identifier(column.clone());
        }
    });
}

/// Refuses key options that would be ignored.
fn refuse_options(key: &str) -> Result<(), Error> {
    let key = key.to_ascii_uppercase();
    let options = ["NULLS NOT DISTINCT", "DEFERRABLE", "INITIALLY"];
    match options.into_iter().find(|words| key.contains(words)) {
        None => Ok(()),
        Some(words) => Err(Error::not_yet(format!("{words} of a key")).next("leave it out")),
    }
}
