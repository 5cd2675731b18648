//! SET, RESET and SHOW of the settings of a session.

use datafusion::sql::sqlparser::tokenizer::{Token, Word};

use super::Cursor;
use crate::error::Error;
use crate::statement::{Setting, Statement};

/// Further subjects of SET and SHOW, which DataFusion's parser handles.
const OTHERS: &str = "SEARCH_PATH|SCHEMA|TRANSACTION|CONSTRAINTS|ROLE|AUTHORIZATION|SESSION_AUTHORIZATION|\
                      PARAMETER|PARAMETERS|TABLES|COLUMNS|FUNCTIONS|CREATE|DATABASES|SCHEMAS|VIEWS";

impl Cursor<'_> {
    /// Whether the SET, SHOW or RESET here is about a setting of ours.
    pub(super) fn is_about_setting(&self) -> bool {
        let at = match self.is_word_at(0, "SET") {
            true => usize::from(self.is_word_at(1, "SESSION|LOCAL")) + 1,
            false => 1,
        };
        let is_other = match self.is_word_at(0, "SHOW") {
            // SHOW TRANSACTION ISOLATION LEVEL shows a setting, as SHOW ROLE does.
            true => {
                self.is_word_at(at, OTHERS)
                    && !self.is_word_at(at, "TRANSACTION|ROLE|SESSION_AUTHORIZATION")
            }
            false => self.is_word_at(at, OTHERS),
        };
        self.is_word_at(0, "SET|SHOW|RESET") && !is_other && !self.is_word_at(at, "DATAFUSION")
    }

    /// SET, SHOW or RESET of a setting of ours.
    pub(super) fn setting(&mut self) -> Result<Statement, Error> {
        if self.accept_word("SET") {
            return self.set();
        }
        if self.accept_word("RESET") {
            return self.reset();
        }
        self.word("SHOW")?;
        self.show()
    }

    fn set(&mut self) -> Result<Statement, Error> {
        let is_local = self.accept_word("LOCAL");
        if !is_local && self.accept_word("SESSION") && self.accept_word("CHARACTERISTICS") {
            return self.characteristics();
        }
        let (name, value) = if self.accept_words(&["TIME", "ZONE"]) {
            ("timezone".to_owned(), self.zone()?)
        } else if self.accept_word("NAMES") {
            ("client_encoding".to_owned(), self.value()?)
        } else if self.accept_words(&["XML", "OPTION"]) {
            ("xmloption".to_owned(), self.value()?)
        } else {
            let name = self.names("the name of a setting")?.join(".");
            if !self.accept(&Token::Eq) {
                self.word("TO").map_err(|_| self.expected("= or TO"))?;
            }
            (name, self.value()?)
        };
        Ok(Statement::Setting(Setting::Set { values: vec![(name, value)], is_local }))
    }

    fn reset(&mut self) -> Result<Statement, Error> {
        if self.accept_word("ALL") {
            return Ok(Statement::Setting(Setting::ResetAll));
        }
        let name = self.setting_name()?;
        Ok(Statement::Setting(Setting::Set { values: vec![(name, None)], is_local: false }))
    }

    fn show(&mut self) -> Result<Statement, Error> {
        if self.accept_word("ALL") {
            return Ok(Statement::Setting(Setting::ShowAll));
        }
        if self.accept_words(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
            return Ok(Statement::Setting(Setting::Show("transaction_isolation".to_owned())));
        }
        Ok(Statement::Setting(Setting::Show(self.setting_name()?)))
    }

    fn setting_name(&mut self) -> Result<String, Error> {
        match self.accept_words(&["TIME", "ZONE"]) {
            true => Ok("timezone".to_owned()),
            false => Ok(self.names("the name of a setting")?.join(".")),
        }
    }

    /// After SET SESSION CHARACTERISTICS.
    fn characteristics(&mut self) -> Result<Statement, Error> {
        self.word("AS")?;
        self.word("TRANSACTION")?;
        let mut values = Vec::new();
        let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        loop {
            if self.accept_words(&["ISOLATION", "LEVEL"]) {
                let levels =
                    ["READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
                let level = levels
                    .into_iter()
                    .find(|level| self.accept_words(&level.split(' ').collect::<Vec<_>>()));
                let level = level.ok_or_else(|| self.expected(&levels.join(", ")))?;
                values.push(set("default_transaction_isolation", level));
            } else if self.accept_words(&["READ", "ONLY"]) {
                values.push(set("default_transaction_read_only", "on"));
            } else if self.accept_words(&["READ", "WRITE"]) {
                values.push(set("default_transaction_read_only", "off"));
            } else {
                return Err(self.expected("ISOLATION LEVEL, READ ONLY or READ WRITE"));
            }
            if !self.accept(&Token::Comma) && self.is_at_end() {
                return Ok(Statement::Setting(Setting::Set { values, is_local: false }));
            }
        }
    }

    /// A zone after SET TIME ZONE.
    fn zone(&mut self) -> Result<Option<String>, Error> {
        if self.accept_word("LOCAL") {
            return Ok(None);
        }
        if self.accept_word("INTERVAL") {
            let text = self.text("hours and minutes, as '+02:00'")?;
            self.accept_words(&["HOUR", "TO", "MINUTE"]);
            let (hours, minutes) = text.split_once(':').unwrap_or((&text, "0"));
            let wrong = |_| Error::new(68, "22023", format!("\"{text}\" are no hours and minutes"));
            let whole: f64 = hours.parse().map_err(wrong)?;
            let part: f64 = minutes.parse().map_err(wrong)?;
            let part = if hours.starts_with('-') { -part } else { part };
            return Ok(Some((whole + part / 60.0).to_string()));
        }
        self.value()
    }

    /// The value of a setting: words, texts and numbers, separated by commas; `None`: DEFAULT.
    fn value(&mut self) -> Result<Option<String>, Error> {
        if self.accept_word("DEFAULT") {
            return Ok(None);
        }
        let mut values = vec![self.setting_value()?];
        while self.accept(&Token::Comma) {
            values.push(self.setting_value()?);
        }
        // A single quoted name is a text; in a list, quotes show where one ends.
        let plain = match &values[..] {
            [one] => one.strip_prefix('"').and_then(|one| one.strip_suffix('"')),
            _ => None,
        };
        Ok(Some(plain.map_or_else(|| values.join(", "), str::to_owned)))
    }

    fn setting_value(&mut self) -> Result<String, Error> {
        let sign = if self.accept(&Token::Minus) { "-" } else { "" };
        self.accept(&Token::Plus);
        let value = match self.tokens.get(self.at).map(|next| &next.token) {
            Some(Token::Number(number, _)) => format!("{sign}{number}"),
            Some(Token::SingleQuotedString(text)) if sign.is_empty() => text.clone(),
            Some(Token::Word(Word { value, quote_style, .. })) if sign.is_empty() => {
                match quote_style {
                    Some(_) => format!("\"{value}\""),
                    None => value.to_lowercase(),
                }
            }
            _ => return Err(self.expected("a value")),
        };
        self.at += 1;
        Ok(value)
    }
}
