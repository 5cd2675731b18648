//! ALTER .. OWNER TO.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::statement::{About, Define, Statement};

/// Makes the name for a kind of object.
type Kind = fn(TableReference) -> About;

impl Cursor<'_> {
    /// ALTER .. OWNER TO; `None`: it is another statement.
    pub(super) fn owner_to(&mut self) -> Option<Statement> {
        let start = self.at;
        let found = self.owner_to_here();
        if found.is_none() {
            self.at = start;
        }
        found
    }

    fn owner_to_here(&mut self) -> Option<Statement> {
        if !self.accept_word("ALTER") {
            return None;
        }
        let kinds: [(&[&str], Kind); 6] = [
            (&["TABLE"], About::Table),
            (&["FOREIGN", "TABLE"], About::Table),
            (&["VIEW"], About::View),
            (&["SEQUENCE"], About::Sequence),
            (&["INDEX"], About::Index),
            (&["TYPE"], About::Type),
        ];
        let kind = kinds.into_iter().find(|(words, _)| self.accept_words(words));
        let is_schema = kind.is_none() && self.accept_word("SCHEMA");
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let of = match kind {
            Some((_, kind)) => {
                self.accept_word("ONLY");
                kind(self.object("a name").ok()?)
            }
            None if is_schema => About::Schema(self.folded_name("a schema").ok()?),
            None => return None,
        };
        if !self.accept_words(&["OWNER", "TO"]) {
            return None;
        }
        let role = self.role_name().ok()?;
        let is_end = self.tokens[self.at..].iter().all(|own| own.token == Token::SemiColon);
        is_end.then_some(Statement::Define(Define::SetOwner { of, if_exists, role }))
    }
}
