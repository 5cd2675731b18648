//! Parsing of `ALTER DISKGROUP` for templates: `ADD | MODIFY TEMPLATE t ATTRIBUTES (...)`,
//! `DROP TEMPLATE t, ...`.

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{Protection, TemplateWords};
use cellar_storage::request::GroupAction;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;

/// The words allowed in the parentheses.
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
    fn template(&mut self) -> Result<(String, TemplateWords), Error> {
        let name = self.template_name()?;
        let mut words = TemplateWords::default();
        let _ = self.accept_word("ATTRIBUTES") || self.accept_word("ATTRIBUTE");
        if !self.accept(&Token::LParen) {
            return Err(self.expected("ATTRIBUTES (...)"));
        }
        while !self.accept(&Token::RParen) {
            self.template_word(&mut words)?;
            self.accept(&Token::Comma);
        }
        Ok((name, words))
    }

    fn template_word(&mut self, words: &mut TemplateWords) -> Result<(), Error> {
        // Disks without outer and inner tracks offer no choice, so there is nothing to specify.
        if self.is_word_at(self.at, "HOT|COLD|MIRRORHOT|MIRRORCOLD") {
            return Err(Error::not_yet("HOT and COLD regions of disks").next(ALLOWED));
        }
        let protections = [
            ("MIRROR", Protection::Mirror),
            ("HIGH", Protection::High),
            ("UNPROTECTED", Protection::Unprotected),
        ];
        let stripings = [("COARSE", Striping::Coarse), ("FINE", Striping::Fine)];
        if let Some((_, protection)) = protections.into_iter().find(|(w, _)| self.accept_word(w)) {
            words.protection = Some(protection);
        } else if let Some((_, striping)) = stripings.into_iter().find(|(w, _)| self.accept_word(w))
        {
            words.striping = Some(striping);
        } else if self.accept_word("UNIT") {
            words.unit = Some(u32::try_from(self.size()?).unwrap_or(u32::MAX));
        } else if self.accept_word("CHECKSUM") {
            words.checksums = Some(true);
        } else if self.accept_word("NOCHECKSUM") {
            words.checksums = Some(false);
        } else if self.accept_word("FAILGROUP") {
            words.failgroup = Some(self.storage_name("the name of a failure group")?);
        } else if self.accept_word("ANY") {
            self.word("FAILGROUP")?;
            words.failgroup = Some(String::new());
        } else {
            return Err(self.expected(ALLOWED));
        }
        Ok(())
    }
}
