//! GRANT and REVOKE of rights on objects, REASSIGN OWNED, DROP OWNED.

use cellar_instance::catalog::Rights;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::rights::{On, RightsStatement, Said};
use crate::statement::{Define, Statement};

const KINDS: &str =
    "TABLE, SEQUENCE, SCHEMA, TYPE, DATABASE, ALL TABLES IN SCHEMA or ALL SEQUENCES IN SCHEMA";

/// Further kinds of objects on which PostgreSQL has rights.
const OTHERS: &str =
    "FUNCTION|PROCEDURE|ROUTINE|LANGUAGE|LARGE|FOREIGN|TABLESPACE|PARAMETER|DOMAIN";

pub(super) fn rights(statement: RightsStatement) -> Statement {
    Statement::Define(Define::Rights(Box::new(statement)))
}

impl Cursor<'_> {
    /// Whether rights on objects are granted: ON comes before TO and FROM.
    pub(super) fn is_on_objects(&self) -> bool {
        let words = (self.at..self.tokens.len()).find(|at| self.is_word_at(*at, "ON|TO|FROM"));
        words.is_some_and(|at| self.is_word_at(at, "ON"))
    }

    /// The rest of a GRANT on objects.
    pub(super) fn grant_rights(&mut self) -> Result<Statement, Error> {
        let (said, on) = self.rights_on()?;
        self.word("TO")?;
        let to = self.grantees()?;
        let options = self.accept_words(&["WITH", "GRANT", "OPTION"]);
        self.granted_by()?;
        let (grants, cascades) = (true, false);
        Ok(rights(RightsStatement::Change { grants, said, on, to, options, cascades }))
    }

    /// The rest of a REVOKE on objects.
    pub(super) fn revoke_rights(&mut self, options: bool) -> Result<Statement, Error> {
        let (said, on) = self.rights_on()?;
        self.word("FROM")?;
        let to = self.grantees()?;
        self.granted_by()?;
        let (grants, cascades) = (false, self.cascades());
        Ok(rights(RightsStatement::Change { grants, said, on, to, options, cascades }))
    }

    fn grantees(&mut self) -> Result<Vec<crate::statement::RoleName>, Error> {
        let mut names = Vec::new();
        loop {
            // A noise word.
            self.accept_word("GROUP");
            names.push(self.role_name()?);
            if !self.accept(&Token::Comma) {
                return Ok(names);
            }
        }
    }

    fn rights_on(&mut self) -> Result<(Vec<Said>, On), Error> {
        let said = self.said_rights()?;
        self.word("ON")?;
        Ok((said, self.on_what()?))
    }

    fn said_rights(&mut self) -> Result<Vec<Said>, Error> {
        if self.accept_word("ALL") {
            self.accept_word("PRIVILEGES");
            return Ok(vec![Said { rights: None, columns: self.said_columns()? }]);
        }
        let mut said = Vec::new();
        loop {
            let word = self.name("a privilege")?;
            let Some(own) = Rights::of_word(&word) else {
                let text = format!("unrecognized privilege type \"{}\"", word.to_lowercase());
                return Err(Error::new(990, "42601", text)
                    .next("SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER, USAGE, CREATE, or ALL"));
            };
            said.push(Said { rights: Some(own), columns: self.said_columns()? });
            if !self.accept(&Token::Comma) {
                return Ok(said);
            }
        }
    }

    fn said_columns(&mut self) -> Result<Vec<String>, Error> {
        let mut columns = Vec::new();
        if !self.accept(&Token::LParen) {
            return Ok(columns);
        }
        loop {
            columns.push(self.folded_name("the name of a column")?);
            if !self.accept(&Token::Comma) {
                break;
            }
        }
        match self.accept(&Token::RParen) {
            true => Ok(columns),
            false => Err(self.expected(")")),
        }
    }

    fn on_what(&mut self) -> Result<On, Error> {
        if self.accept_words(&["ALL", "TABLES", "IN", "SCHEMA"]) {
            return Ok(On::AllTables(self.schema_names()?));
        }
        if self.accept_words(&["ALL", "SEQUENCES", "IN", "SCHEMA"]) {
            return Ok(On::AllSequences(self.schema_names()?));
        }
        // The name of a table may be one of these words.
        let is_name = self.is_word_at(self.at + 1, "TO|FROM")
            || self
                .tokens
                .get(self.at + 1)
                .is_some_and(|own| matches!(own.token, Token::Comma | Token::Period));
        if is_name {
            return Ok(On::Tables(self.objects()?));
        }
        if self.is_word_at(self.at, OTHERS) || self.is_word_at(self.at, "ALL") {
            let word = self.name(KINDS)?.to_uppercase();
            return Err(Error::not_yet(format!("a privilege on {word}")).next(KINDS));
        }
        if self.accept_word("SEQUENCE") {
            return Ok(On::Sequences(self.objects()?));
        }
        if self.accept_word("SCHEMA") {
            return Ok(On::Schemas(self.schema_names()?));
        }
        if self.accept_word("DATABASE") {
            return Ok(On::Database(self.schema_names()?));
        }
        if self.accept_word("TYPE") {
            return Ok(On::Types(self.objects()?));
        }
        self.accept_word("TABLE");
        Ok(On::Tables(self.objects()?))
    }

    fn objects(&mut self) -> Result<Vec<TableReference>, Error> {
        let mut names = vec![self.object("the name of an object")?];
        while self.accept(&Token::Comma) {
            names.push(self.object("the name of an object")?);
        }
        Ok(names)
    }

    fn schema_names(&mut self) -> Result<Vec<String>, Error> {
        let mut names = vec![self.folded_name("a name")?];
        while self.accept(&Token::Comma) {
            names.push(self.folded_name("a name")?);
        }
        Ok(names)
    }

    /// REASSIGN OWNED BY, DROP OWNED BY; `None`: it is another statement.
    pub(super) fn about_owned(&mut self) -> Result<Option<Statement>, Error> {
        if self.accept_words(&["REASSIGN", "OWNED", "BY"]) {
            let of = self.role_names()?;
            self.word("TO")?;
            let to = self.role_name()?;
            return Ok(Some(rights(RightsStatement::Reassign { of, to })));
        }
        if self.accept_words(&["DROP", "OWNED", "BY"]) {
            let of = self.role_names()?;
            let cascades = self.cascades();
            return Ok(Some(rights(RightsStatement::DropOwned { of, cascades })));
        }
        Ok(None)
    }
}
