//! Parsing of `ALTER DISKGROUP` for templates: `ADD | MODIFY TEMPLATE t ATTRIBUTES (...)`,
//! `DROP TEMPLATE t, ...`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{GroupAction, TemplateClause};

/// What stands in the brackets.
const ALLOWED: &str = "MIRROR, HIGH or UNPROTECTED; COARSE or FINE; UNIT 4K or 8K; CHECKSUM or \
                       NOCHECKSUM; FAILGROUP name or ANY FAILGROUP";

impl Cursor<'_> {
    /// An action on templates, if one comes next.
    pub(super) fn template_action(&mut self) -> Result<Option<GroupAction>, Error> {
        let at = self.at;
        if !self.is_word_at(at, "ADD|MODIFY|DROP") || !self.is_word_at(at + 1, "TEMPLATE") {
            return Ok(None);
        }
        let adds = self.accept_word("ADD");
        let drops = !adds && self.accept_word("DROP");
        if !adds && !drops {
            self.word("MODIFY")?;
        }
        self.word("TEMPLATE")?;
        if drops {
            let mut names = vec![self.template_name()?];
            while self.accept(&Token::Comma) {
                names.push(self.template_name()?);
            }
            return Ok(Some(GroupAction::DropTemplates(names)));
        }
        let mut all = vec![self.template()?];
        while self.accept(&Token::Comma) {
            all.push(self.template()?);
        }
        Ok(Some(match adds {
            true => GroupAction::AddTemplates(all),
            false => GroupAction::ModifyTemplates(all),
        }))
    }

    fn template_name(&mut self) -> Result<String, Error> {
        self.storage_name("the name of a template")
    }

    /// `name [ATTRIBUTE | ATTRIBUTES] (word, ...)`.
    fn template(&mut self) -> Result<TemplateClause, Error> {
        let mut clause = TemplateClause { name: self.template_name()?, ..Default::default() };
        let _ = self.accept_word("ATTRIBUTES") || self.accept_word("ATTRIBUTE");
        if !self.accept(&Token::LParen) {
            return Err(self.expected("ATTRIBUTES (...)"));
        }
        while !self.accept(&Token::RParen) {
            self.template_word(&mut clause)?;
            self.accept(&Token::Comma);
        }
        Ok(clause)
    }

    fn template_word(&mut self, clause: &mut TemplateClause) -> Result<(), Error> {
        // Where disks have no outer and inner tracks to choose from there is nothing to say.
        if self.is_word_at(self.at, "HOT|COLD|MIRRORHOT|MIRRORCOLD") {
            return Err(Error::not_yet("HOT and COLD regions of disks").next(ALLOWED));
        }
        if self.is_word_at(self.at, "MIRROR|HIGH|UNPROTECTED") {
            clause.protection = Some(self.name(ALLOWED)?.to_lowercase());
        } else if self.is_word_at(self.at, "COARSE|FINE") {
            clause.striping = Some(self.name(ALLOWED)?.to_lowercase());
        } else if self.accept_word("UNIT") {
            clause.unit = Some(self.size()?);
        } else if self.accept_word("CHECKSUM") {
            clause.checksums = Some(true);
        } else if self.accept_word("NOCHECKSUM") {
            clause.checksums = Some(false);
        } else if self.accept_word("FAILGROUP") {
            clause.failgroup = Some(self.storage_name("the name of a failure group")?);
        } else if self.accept_word("ANY") {
            self.word("FAILGROUP")?;
            clause.failgroup = Some(String::new());
        } else {
            return Err(self.expected(ALLOWED));
        }
        Ok(())
    }
}
