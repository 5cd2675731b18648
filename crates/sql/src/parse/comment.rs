//! COMMENT ON.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use super::sequence::reference;
use crate::error::Error;
use crate::statement::{About, Define, Statement};

const KINDS: &str = "TABLE, COLUMN, INDEX, VIEW, SEQUENCE, SCHEMA, TYPE or CONSTRAINT";

impl Cursor<'_> {
    pub(super) fn comment(&mut self) -> Result<Statement, Error> {
        let wrong = self.expected(KINDS);
        // An external table, in pg_dump's terms.
        let _ = self.is_word_at(self.at + 1, "TABLE") && self.accept_word("FOREIGN");
        let about = match self.name(KINDS)?.to_ascii_uppercase().as_str() {
            "TABLE" => About::Table(self.object("the name of a table")?),
            "VIEW" => About::View(self.object("the name of a view")?),
            "SEQUENCE" => About::Sequence(self.object("the name of a sequence")?),
            "TYPE" => About::Type(self.object("the name of a type")?),
            "INDEX" => About::Index(self.object("the name of an index")?),
            "SCHEMA" => About::Schema(self.folded_name("the name of a schema")?),
            "COLUMN" => {
                let mut names = self.names("a column")?;
                let column = names.pop().unwrap_or_default();
                let Some(table) = reference(&names) else {
                    return Err(Error::syntax("COMMENT ON COLUMN takes the column of a table")
                        .next("comment on column table.column is '..'"));
                };
                About::Column(table, column)
            }
            "CONSTRAINT" => {
                let name = self.folded_name("the name of a constraint")?;
                self.word("ON")?;
                About::Constraint(self.object("the name of a table")?, name)
            }
            word @ ("DATABASE" | "FUNCTION" | "ROLE" | "TRIGGER" | "EXTENSION" | "DOMAIN") => {
                return Err(Error::not_yet(format!("COMMENT ON {word}")).next(KINDS));
            }
            _ => return Err(wrong),
        };
        self.word("IS")?;
        let text = match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                Some(text.clone()).filter(|text| !text.is_empty())
            }
            _ if self.is_word_at(self.at, "NULL") => None,
            _ => return Err(self.expected("a comment in 'quotes', or NULL")),
        };
        self.at += 1;
        Ok(Statement::Define(Define::Comment { about, text }))
    }
}
