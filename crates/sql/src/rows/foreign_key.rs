//! A foreign key as a statement defines it.

use cellar_instance::catalog::{Action, Deferral};
use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial,
    ForeignKeyConstraint, ObjectName, ReferentialAction,
};

use crate::error::Error;
use crate::names::folded;

/// A foreign key to create.
#[derive(Clone, Debug)]
pub(crate) struct NewForeignKey {
    /// Its name, if given.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<usize>,
    /// The table that it refers to.
    pub table: ObjectName,
    /// The columns that it refers to; none: those of the primary key.
    pub referred: Vec<String>,
    pub on_delete: Action,
    pub on_update: Action,
    pub deferral: Deferral,
}

fn action(said: Option<ReferentialAction>) -> Action {
    match said {
        None | Some(ReferentialAction::NoAction) => Action::Nothing,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::Null,
        Some(ReferentialAction::SetDefault) => Action::Default,
    }
}

impl NewForeignKey {
    /// What a statement says.
    ///
    /// # Errors
    /// 03001 not supported; 00957 a column is named twice.
    pub fn of(
        name: Option<String>,
        columns: Vec<usize>,
        said: ForeignKeyConstraint,
    ) -> Result<NewForeignKey, Error> {
        let deferral = said.characteristics.map_or(Ok(Deferral::Never), deferral)?;
        let matches = match said.match_kind {
            None | Some(ConstraintReferenceMatchKind::Simple) => None,
            Some(ConstraintReferenceMatchKind::Full) if columns.len() == 1 => None,
            Some(ConstraintReferenceMatchKind::Full) => Some("MATCH FULL of several columns"),
            Some(ConstraintReferenceMatchKind::Partial) => Some("MATCH PARTIAL"),
        };
        if let Some(what) = matches {
            return Err(Error::not_yet(what).next("leave it out: MATCH SIMPLE is what there is"));
        }
        let mut each = columns.clone();
        each.sort_unstable();
        each.dedup();
        if each.len() < columns.len() {
            let text = "a column is twice in a foreign key";
            return Err(Error::new(957, "42701", text).next("name it once"));
        }
        Ok(NewForeignKey {
            name: name.or_else(|| said.name.as_ref().map(folded)),
            columns,
            table: said.foreign_table,
            referred: said.referred_columns.iter().map(folded).collect(),
            on_delete: action(said.on_delete),
            on_update: action(said.on_update),
            deferral,
        })
    }
}

/// When a foreign key is checked.
fn deferral(said: ConstraintCharacteristics) -> Result<Deferral, Error> {
    if said.enforced == Some(false) {
        return Err(Error::not_yet("NOT ENFORCED of a foreign key").next("leave it out"));
    }
    let is_last = said.initially == Some(DeferrableInitial::Deferred);
    match (said.deferrable, is_last) {
        (Some(false), true) => {
            let text = "a foreign key that is INITIALLY DEFERRED must be DEFERRABLE";
            Err(Error::new(911, "42601", text).next("say DEFERRABLE, or leave INITIALLY out"))
        }
        (_, true) => Ok(Deferral::Deferred),
        (Some(true), false) => Ok(Deferral::Immediate),
        (Some(false) | None, false) => Ok(Deferral::Never),
    }
}
