//! Templates: the statements of `ALTER DISKGROUP` as calls of the library.

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{Error as GroupError, Group, Protection, TemplateChange, TemplateWords};

use crate::statement::{GroupAction, TemplateClause};

/// Does `action` if it is one on templates; whether it was.
pub(super) async fn alter(group: &Group, action: &GroupAction) -> Result<bool, GroupError> {
    match action {
        GroupAction::AddTemplates(all) => set(group, TemplateChange::Add, all).await?,
        GroupAction::ModifyTemplates(all) => set(group, TemplateChange::Modify, all).await?,
        GroupAction::DropTemplates(names) => {
            group.drop_templates(names).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

async fn set(
    group: &Group,
    change: TemplateChange,
    all: &[TemplateClause],
) -> Result<(), GroupError> {
    let all: Vec<_> = all.iter().map(|clause| (clause.name.clone(), words(clause))).collect();
    group.set_templates(change, &all).await
}

fn words(clause: &TemplateClause) -> TemplateWords {
    TemplateWords {
        protection: clause.protection.as_deref().map(|word| match word {
            "unprotected" => Protection::Unprotected,
            "high" => Protection::High,
            _ => Protection::Mirror,
        }),
        striping: clause.striping.as_deref().map(|word| match word {
            "fine" => Striping::Fine,
            _ => Striping::Coarse,
        }),
        unit: clause.unit.map(|unit| u32::try_from(unit).unwrap_or(u32::MAX)),
        checksums: clause.checksums,
        failgroup: clause.failgroup.clone(),
    }
}
