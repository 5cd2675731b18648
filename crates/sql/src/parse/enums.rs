//! CREATE, ALTER and DROP TYPE: enum types.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::error::Error;
use crate::statement::{Define, EnumChange, Statement};

impl Cursor<'_> {
    pub(super) fn create_type(&mut self) -> Result<Statement, Error> {
        let name = self.object("the name of a type")?;
        if !self.accept_words(&["AS", "ENUM"]) {
            let what = "CREATE TYPE of anything but an enum";
            return Err(Error::not_yet(what).next("create type name as enum ('a', 'b')"));
        }
        if !self.accept(&Token::LParen) {
            return Err(self.expected("("));
        }
        let mut labels = Vec::new();
        if !self.accept(&Token::RParen) {
            labels = self.texts("a value")?;
            if !self.accept(&Token::RParen) {
                return Err(self.expected(", or )"));
            }
        }
        Ok(Statement::Define(Define::CreateEnum { name, labels }))
    }

    pub(super) fn alter_type(&mut self) -> Result<Statement, Error> {
        let name = self.object("the name of a type")?;
        let change = if self.accept_words(&["ADD", "VALUE"]) {
            let if_not_exists = self.accept_words(&["IF", "NOT", "EXISTS"]);
            let label = self.text("a value")?;
            let before = if self.accept_word("BEFORE") {
                Some((true, self.text("a value")?))
            } else if self.accept_word("AFTER") {
                Some((false, self.text("a value")?))
            } else {
                None
            };
            EnumChange::Add { label, if_not_exists, before }
        } else if self.accept_words(&["RENAME", "VALUE"]) {
            let from = self.text("a value")?;
            self.word("TO")?;
            EnumChange::RenameLabel { from, to: self.text("a value")? }
        } else if self.accept_words(&["RENAME", "TO"]) {
            EnumChange::Rename(self.folded_name("a name")?)
        } else if self.accept_words(&["SET", "SCHEMA"]) {
            EnumChange::SetSchema(self.folded_name("the name of a schema")?)
        } else if self.accept_word("OWNER") {
            return Err(Error::not_yet("ALTER TYPE .. OWNER").next("leave it out"));
        } else {
            return Err(self.expected("ADD VALUE, RENAME VALUE, RENAME TO or SET SCHEMA"));
        };
        Ok(Statement::Define(Define::AlterEnum { name, change }))
    }

    pub(super) fn drop_type(&mut self) -> Result<Statement, Error> {
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let mut names = vec![self.object("the name of a type")?];
        while self.accept(&Token::Comma) {
            names.push(self.object("the name of a type")?);
        }
        let cascades = self.cascades();
        Ok(Statement::Define(Define::DropTypes { names, if_exists, cascades }))
    }

    pub(super) fn create_domain(&mut self) -> Result<Statement, Error> {
        Err(Error::not_yet("CREATE DOMAIN")
            .next("give the column the type, and a CHECK: create table t (x int check (x > 0))"))
    }
}
