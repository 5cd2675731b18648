//! A foreign key as a statement says it.

use cellar_instance::catalog::Action;
use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial,
    ForeignKeyConstraint, ObjectName, ReferentialAction,
};

use crate::error::Error;
use crate::names::folded;

/// A foreign key that is to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewForeignKey {
    /// Its name, where that is said.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<usize>,
    /// The table that it refers to.
    pub table: ObjectName,
    /// The columns that it refers to; none: those of the primary key.
    pub referred: Vec<String>,
    pub on_delete: Action,
    pub on_update: Action,
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
    /// 03001 what there is not; 00957 a column is named twice.
    pub fn of(
        name: Option<String>,
        columns: Vec<usize>,
        said: ForeignKeyConstraint,
    ) -> Result<NewForeignKey, Error> {
        if let Some(said) = &said.characteristics {
            refuse(*said)?;
        }
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
        })
    }
}

/// Refuses foreign keys that are checked at another time.
fn refuse(said: ConstraintCharacteristics) -> Result<(), Error> {
    let what = match said {
        ConstraintCharacteristics { enforced: Some(false), .. } => "NOT ENFORCED",
        ConstraintCharacteristics { deferrable: Some(true), .. } => "DEFERRABLE",
        ConstraintCharacteristics { initially: Some(DeferrableInitial::Deferred), .. } => {
            "INITIALLY DEFERRED"
        }
        _ => return Ok(()),
    };
    Err(Error::not_yet(format!("{what} of a foreign key"))
        .next("leave it out: foreign keys are checked at the end of each statement"))
}
