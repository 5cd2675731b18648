//! ALTER TABLE: the actions are first collected in a target state ([`Altered`]), then carried out together.

use std::collections::BTreeSet;

use arrow::datatypes::Field;
use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Constraint, Identity, Table, name};
use cellar_instance::database::Alteration;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterIndexOperation, AlterTable, AlterTableOperation as Action,
    ColumnDef, DropBehavior, Expr as SqlExpr, GeneratedAs, Ident, ObjectName, RenameTableNameKind,
    TableConstraint,
};

use crate::columnar::table::{enum_of, form_of, length_of, with_default, without_default};
use crate::engine::altered::{Altered, From, NewColumn, renamed};
use crate::engine::ddl::bare_name;
use crate::engine::foreign::{Referring, indexes_with};
use crate::engine::sequences::{bare, quoted};
use crate::engine::temporary::OnCommit;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::rows::{
    Definition, NewSequence, RowColumns, SequenceOptions, added, default_value, identity, name_of,
};

/// The error for an unknown action, quoting it.
fn not_yet(action: &impl std::fmt::Display) -> Error {
    Error::not_yet(format!("ALTER TABLE .. {action}"))
}

impl Engine {
    /// ALTER TABLE.
    #[boxed]
    pub(super) async fn alter_table(&self, alter: &AlterTable) -> Result<Outcome, Error> {
        if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
            return Err(not_yet(alter));
        }
        let name = match bare_name(&alter.name) {
            Err(_) if alter.if_exists => return Ok(done("There was no such table.")),
            name => name?,
        };
        if alter.if_exists && self.catalog()?.table(&name).is_none() {
            return Ok(done("There was no such table."));
        }
        let mut alteration = self.alteration(&alter.name).await?;
        let (table, notices, dropped) = self.altered(&mut alteration, alter).await?;
        let message = match table {
            None => "Nothing was to be done.".to_owned(),
            Some((table, must_refer)) => {
                let key = table.name.clone();
                self.finish(alteration, table).await?;
                self.check_references(&key, &must_refer).await?;
                if !dropped.is_empty() {
                    let scope = self.definer()?;
                    scope.definitions.drop_names(&mut *scope.open().await?, dropped).await?;
                }
                format!("Table {name} altered.")
            }
        };
        Ok(Outcome::Done { message, notices })
    }

    /// The altered table, as built in the heap, and foreign keys to check (`None`: unchanged); what the user
    /// should know; and the objects dropped with its columns.
    async fn altered(
        &self,
        alteration: &mut Alteration,
        alter: &AlterTable,
    ) -> Result<(Option<(Table, Vec<String>)>, Vec<String>, BTreeSet<String>), Error> {
        let old = RowColumns::of(
            alteration.table(),
            alteration.rows(),
            (&self.settings.now().zone, &*self.catalog()?),
        )?;
        let mut altered = Altered::of(old);
        for action in &alter.operations {
            self.act(&mut altered, action).await?;
        }
        if altered.is_as_it_was() {
            return Ok((None, altered.notices, altered.dropped));
        }
        let table = self.carried_out(&mut altered, alteration).await?;
        Ok((Some((table, altered.must_refer)), altered.notices, altered.dropped))
    }

    async fn act(&self, altered: &mut Altered, action: &Action) -> Result<(), Error> {
        match action {
            Action::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                self.add_column(altered, column_def, *if_not_exists).await
            }
            Action::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                for name in column_names {
                    let cascades = *drop_behavior == Some(DropBehavior::Cascade);
                    self.drop_column(altered, &name_of(name), (*if_exists, cascades)).await?;
                }
                Ok(())
            }
            Action::RenameColumn { old_column_name, new_column_name } => {
                let name = name_of(old_column_name);
                let what = format!("column \"{name}\" cannot be renamed");
                self.refuse_under_views(&altered.old().name, Some(&name), &what)?;
                altered.rename_column(&name_of(old_column_name), &name_of(new_column_name))
            }
            Action::RenameTable { table_name } => self.rename_table(altered, table_name),
            Action::AlterColumn { column_name, op } => {
                self.alter_column(altered, &name_of(column_name), op).await
            }
            Action::AddConstraint { constraint, not_valid: false } => {
                self.add_constraint(altered, constraint.clone()).await
            }
            Action::DropConstraint { if_exists, name, drop_behavior } => {
                let cascades = *drop_behavior == Some(DropBehavior::Cascade);
                let name = name_of(name);
                let is_it = |index: &str| name::parts(index).1 == name;
                let what = format!("constraint \"{name}\" cannot be dropped");
                self.refuse_under_keys(altered, is_it, (cascades, &what)).await?;
                altered.drop_constraint(&name, *if_exists)
            }
            Action::RenameConstraint { old_name, new_name } => {
                let (old, new) = (name_of(old_name), name_of(new_name));
                if altered.rows.indexes.iter().any(|index| name::parts(&index.name).1 == old) {
                    let new = name::beside(&altered.name, &new);
                    self.check_free(&*self.catalog()?, &new)?;
                }
                altered.rename_constraint(&old, &new)
            }
            other => Err(not_yet(other)),
        }
    }

    async fn add_column(
        &self,
        altered: &mut Altered,
        column: &ColumnDef,
        if_not_exists: bool,
    ) -> Result<(), Error> {
        let name = name_of(&column.name);
        if altered.position(&name).is_some() {
            if if_not_exists {
                altered.notices.push(format!("column \"{name}\" already exists"));
                return Ok(());
            }
            return Err(altered.is_there(&name));
        }
        let (mut column, mut names) = (column.clone(), altered.names());
        names.push(name);
        let data_type = column.data_type.clone();
        let definition = added(&altered.old().name, names, Some(&mut column), None)?;
        let at = altered.columns.len();
        let mut from = None;
        let mut field;
        if column.data_type != data_type || !definition.sequences.is_empty() {
            // SERIAL stands for another type.
            field = self.column_field(&column.name, &column.data_type).await?;
            let mut fields: Vec<_> =
                altered.columns.iter().map(|column| column.field.clone()).collect();
            fields.push(field);
            let (made, owned) =
                self.sequences_of(&altered.name, &definition.sequences, &mut fields)?;
            field = fields.swap_remove(at);
            self.add_sequences(made, None).await?;
            altered.rows.owned.extend(owned);
            let text = crate::columnar::table::default_of(&field).unwrap_or("NULL").to_owned();
            from = Some(default_value(&self.state(), &text, field.data_type())?);
        } else {
            field = self.column_field(&column.name, &column.data_type).await?;
        }
        if let Some((_, text)) = definition.defaults.first() {
            from = Some(default_value(&self.state(), text, field.data_type())?);
            field = with_default(field, text);
        }
        altered.columns.push(NewColumn { field, from: From::Added(from) });
        self.add_keys(altered, &definition).await
    }

    async fn add_constraint(
        &self,
        altered: &mut Altered,
        constraint: TableConstraint,
    ) -> Result<(), Error> {
        let definition = added(&altered.old().name, altered.names(), None, Some(constraint))?;
        self.add_keys(altered, &definition).await
    }

    /// Adds keys, checks and NOT NULL.
    async fn add_keys(&self, altered: &mut Altered, definition: &Definition) -> Result<(), Error> {
        let catalog = self.catalog()?;
        let is_free = |name: &str| {
            self.kind_of(&catalog, name).is_none()
                && !altered.rows.indexes.iter().any(|index| index.name == name)
        };
        let new = definition.rows(&altered.name, &is_free, &altered.constraints());
        for index in new.indexes {
            if index.constraint == Some(Constraint::Primary) && altered.primary().is_some() {
                let text = format!("table \"{}\" has a primary key already", altered.name);
                return Err(Error::new(2260, "42P16", text).next("make it UNIQUE NOT NULL"));
            }
            altered.check_constraint_free(&index.name)?;
            self.check_free(&catalog, &index.name)?;
            let place = match index.constraint {
                // Lookups try the first index first.
                Some(Constraint::Primary) => 0,
                _ => altered.rows.indexes.len(),
            };
            altered.rows.indexes.insert(place, index);
        }
        for check in new.checks {
            altered.check_constraint_free(&check.name)?;
            altered.rows.checks.push(check);
            altered.must_check = true;
        }
        for column in &definition.not_null {
            altered.set_nullable(*column, false);
        }
        let known = altered.constraints();
        let to = Referring {
            key: &altered.name,
            was: &altered.old().name,
            schema: &altered.schema(),
            rows: &altered.rows,
            on_commit: self
                .catalog()?
                .table(&altered.old().name)
                .map(OnCommit::of)
                .unwrap_or_default(),
        };
        let keys = self.foreign_keys(&definition.foreign, &to, &known).await?;
        altered.must_refer.extend(keys.iter().map(|key| key.name.clone()));
        altered.rows.foreign.extend(keys);
        Ok(())
    }

    async fn drop_column(
        &self,
        altered: &mut Altered,
        name: &str,
        (if_exists, cascades): (bool, bool),
    ) -> Result<(), Error> {
        let Some(at) = altered.position(name) else {
            if if_exists {
                altered.notices.push(format!("there is no column \"{name}\""));
                return Ok(());
            }
            return altered.column(name).map(|_| ());
        };
        if !cascades {
            let what = format!("column \"{name}\" cannot be dropped");
            self.refuse_under_views(&altered.old().name, Some(name), &what)?;
        }
        altered.dropped.extend(self.catalog()?.views_over(&altered.old().name, Some(name)));
        let keys: Vec<String> = indexes_with(altered, at);
        let what = format!("column \"{name}\" cannot be dropped");
        let is_it = |index: &str| keys.iter().any(|own| own == index);
        self.refuse_under_keys(altered, is_it, (cascades, &what)).await?;
        let used = self.checks_with(altered, name)?;
        altered.drop_column(at, &used)
    }

    /// Which checks name a column.
    fn checks_with(&self, altered: &Altered, name: &str) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for check in &altered.rows.checks {
            // A check that renaming the column would change names it.
            if renamed(&check.condition, name, "\u{1}")? != check.condition {
                found.push(check.name.clone());
            }
        }
        Ok(found)
    }

    fn rename_table(&self, altered: &mut Altered, name: &RenameTableNameKind) -> Result<(), Error> {
        let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = name;
        let name = name::beside(&altered.old().name, &bare_name(name)?);
        if crate::names::has_controls(&name) {
            let text = "the name of a table has no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        self.check_free(&*self.catalog()?, &name)?;
        let what = format!("table \"{}\" cannot be renamed", altered.old().name);
        self.refuse_under_views(&altered.old().name, None, &what)?;
        altered.name = name;
        Ok(())
    }

    async fn alter_column(
        &self,
        altered: &mut Altered,
        name: &str,
        action: &AlterColumnOperation,
    ) -> Result<(), Error> {
        let at = altered.column(name)?;
        let field = altered.columns[at].field.clone();
        match action {
            AlterColumnOperation::SetNotNull => altered.set_nullable(at, false),
            AlterColumnOperation::DropNotNull
            | AlterColumnOperation::SetDefault { .. }
            | AlterColumnOperation::DropDefault
                if altered
                    .rows
                    .owned
                    .iter()
                    .any(|own| own.column == at && own.identity.is_some()) =>
            {
                let text = format!("column \"{name}\" is an identity column");
                return Err(Error::new(30673, "42601", text).next("its values are of its sequence"));
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                let kind = generated_as.unwrap_or(GeneratedAs::ByDefault);
                let said = sequence_options.clone().unwrap_or_default();
                self.add_identity(altered, at, identity(at, kind, &said)?).await?;
            }
            AlterColumnOperation::DropNotNull => {
                if altered.primary().is_some_and(|key| key.columns.iter().any(|c| c.column == at)) {
                    let text = format!("column \"{name}\" is in the primary key");
                    return Err(Error::new(1451, "42P16", text)
                        .next("drop the constraint of the primary key first"));
                }
                altered.set_nullable(at, true);
            }
            AlterColumnOperation::SetDefault { value } => {
                let text = value.to_string();
                let value = default_value(&self.state(), &text, field.data_type())?;
                self.check_default(value).await?;
                altered.columns[at].field = with_default(field, &text);
            }
            AlterColumnOperation::DropDefault => {
                altered.columns[at].field = without_default(field);
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let what = format!("the type of column \"{name}\" cannot be changed");
                self.refuse_under_views(&altered.old().name, Some(name), &what)?;
                let ident = Ident::with_quote('"', name);
                let new = self.column_field(&ident, data_type).await?;
                self.retype(altered, at, new, using.as_ref()).await?;
            }
        }
        Ok(())
    }

    /// ALTER TABLE .. ADD GENERATED, with the name of the sequence.
    #[boxed]
    pub(super) async fn add_named_identity(
        &self,
        (table, column): (&TableReference, &str),
        kind: Identity,
        (sequence, options): (String, SequenceOptions),
    ) -> Result<Outcome, Error> {
        let mut alteration = self.alteration(&quoted(&bare(table)?)).await?;
        let of = (&self.settings.now().zone, &*self.catalog()?);
        let old = RowColumns::of(alteration.table(), alteration.rows(), of)?;
        let mut altered = Altered::of(old);
        let at = altered.column(column)?;
        let (identity, name) = (Some(kind), Some(sequence));
        let sequence = NewSequence { column: at, identity, options, name };
        self.add_identity(&mut altered, at, sequence).await?;
        let table = self.carried_out(&mut altered, &mut alteration).await?;
        let name = table.name.clone();
        self.finish(alteration, table).await?;
        Ok(done(format!("Table {name} altered.")))
    }

    /// Gives a column a sequence of its own.
    async fn add_identity(
        &self,
        altered: &mut Altered,
        at: usize,
        sequence: NewSequence,
    ) -> Result<(), Error> {
        let field = altered.columns[at].field.clone();
        let name = field.name();
        let has_default = crate::columnar::table::default_of(&field).is_some();
        if field.is_nullable() || has_default {
            let what = if has_default { "a DEFAULT" } else { "no NOT NULL" };
            let text = format!("column \"{name}\" has {what}: it cannot be an identity column");
            return Err(Error::new(30673, "55000", text)
                .next(format!("alter column {name} set not null, or drop default, first")));
        }
        let mut fields: Vec<_> = altered.columns.iter().map(|c| c.field.clone()).collect();
        let (made, owned) = self.sequences_of(&altered.name, &[sequence], &mut fields)?;
        self.add_sequences(made, None).await?;
        altered.rows.owned.extend(owned);
        altered.columns[at].field = fields.swap_remove(at);
        Ok(())
    }

    async fn retype(
        &self,
        altered: &mut Altered,
        at: usize,
        new: Field,
        using: Option<&SqlExpr>,
    ) -> Result<(), Error> {
        let (old, name) = (altered.columns[at].field.clone(), altered.columns[at].field.name());
        let mut field = new.with_nullable(old.is_nullable());
        if let Some(text) = crate::columnar::table::default_of(&old) {
            let value = default_value(&self.state(), text, field.data_type())?;
            self.check_default(value).await.map_err(|cause| {
                let text = format!("the DEFAULT of column \"{name}\" cannot be of the new type");
                Error::new(932, "42804", text).caused_by(cause)
            })?;
            field = with_default(field, text);
        }
        let (had, has) = (length_of(&old), length_of(&field));
        let fits = old.data_type() == field.data_type()
            && form_of(&field).is_none_or(|form| form_of(&old) == Some(form))
            && enum_of(&field) == enum_of(&old)
            && (has.is_none() || had.is_some_and(|had| has.is_some_and(|has| has >= had)));
        if fits && using.is_none() {
            altered.columns[at].field = field;
            return Ok(());
        }
        self.refuse_retyped(altered, (at, &old, &field))?;
        // The conversion may change its values.
        let keys = altered.rows.foreign.iter().filter(|key| key.columns.contains(&at));
        altered.must_refer.extend(keys.map(|key| key.name.clone()));
        altered.retype(at, field, using.map(ToString::to_string))
    }

    /// Refuses to change the values of a referenced key column, or the type of a referencing one.
    fn refuse_retyped(
        &self,
        altered: &Altered,
        (at, old, new): (usize, &Field, &Field),
    ) -> Result<(), Error> {
        let keys = indexes_with(altered, at);
        let (catalog, name) = (self.catalog()?, old.name());
        let mut references = catalog.references_to(&altered.old().rows);
        let is_referred = references.any(|(_, index)| keys.contains(&index.name));
        let is_foreign = altered.rows.foreign.iter().any(|key| key.columns.contains(&at));
        if !is_referred && (!is_foreign || old.data_type() == new.data_type()) {
            return Ok(());
        }
        Err(Error::not_yet(format!("the type of column \"{name}\", which is in a foreign key"))
            .next("drop the foreign key, and add it again after"))
    }

    /// ALTER INDEX .. RENAME TO.
    #[boxed]
    pub(super) async fn alter_index(
        &self,
        name: &ObjectName,
        operation: &AlterIndexOperation,
    ) -> Result<Outcome, Error> {
        let AlterIndexOperation::RenameIndex { index_name } = operation;
        let (catalog, old, new) = (self.catalog()?, bare_name(name)?, bare_name(index_name)?);
        let new = name::beside(&old, &new);
        let Some((table, _)) = catalog.index(&old) else {
            let text = format!("index \"{old}\" does not exist");
            return Err(Error::new(1418, "42704", text));
        };
        self.check_free(&catalog, &new)?;
        let quoted = ObjectName::from(vec![Ident::with_quote('"', &table.name)]);
        let alteration = self.alteration(&quoted).await?;
        let (mut table, mut rows) = (alteration.table().clone(), alteration.rows().clone());
        let indexes = rows.indexes.iter_mut().filter(|index| index.name == old);
        indexes.for_each(|index| index.name.clone_from(&new));
        table.rows = Some(rows);
        for texts in [&mut table.comments.indexes, &mut table.comments.constraints] {
            if let Some(text) = texts.remove(name::parts(&old).1) {
                texts.insert(name::parts(&new).1.to_owned(), text);
            }
        }
        self.finish(alteration, table).await?;
        Ok(done(format!("Index {old} is {new} now.")))
    }
}
