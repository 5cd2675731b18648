//! The statements of a block, one by one.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::read::Reader;
use super::text::{Code, PERFORM};
use super::tokens::{RANGE, word_of};
use super::tree::{Branch, Dialect, Into, Raise, RaiseLevel, Step, StepKind};
use crate::error::{Error, Position};

/// Statements of these languages that are not spoken here.
const REFUSED: [&str; 9] =
    ["open", "fetch", "close", "get", "goto", "forall", "pipe", "call", "foreach"];

impl Reader {
    /// A statement that begins with this word.
    pub(super) fn statement(&mut self, word: &str, at: Position) -> Result<StepKind, Error> {
        let has_point = self.tokens.ahead(1) == Some(&Token::Period);
        let kind = match word {
            _ if self.is_assignment() => self.assignment()?,
            "if" => return self.condition(),
            "case" => return self.case(),
            "exit" | "continue" => self.leave(word == "exit")?,
            "return" => {
                self.tokens.expect(&["return"])?;
                StepKind::Return
            }
            "null" => {
                self.tokens.expect(&["null"])?;
                StepKind::Nothing
            }
            "raise" => StepKind::Raise(self.raise()?),
            "raise_application_error" => StepKind::Raise(self.application_error()?),
            "execute" => self.dynamic()?,
            "perform" => self.perform()?,
            "commit" => {
                self.tokens.expect(&["commit"])?;
                self.tokens.takes(&["work"]);
                StepKind::Commit
            }
            "rollback" if self.tokens.word_ahead(1).is_none_or(|word| word == "work") => {
                self.tokens.expect(&["rollback"])?;
                self.tokens.takes(&["work"]);
                StepKind::Rollback
            }
            "dbms_output" | "dbms_lock" | "dbms_session" if has_point => self.packaged()?,
            word if REFUSED.contains(&word) => {
                return Err(self.refused(&word.to_uppercase(), at));
            }
            _ => self.sql()?,
        };
        self.end_of_statement()?;
        Ok(kind)
    }

    /// Whether `name :=` comes next; in DO also `name =`.
    fn is_assignment(&self) -> bool {
        let mut at = 0;
        while matches!(self.tokens.ahead(at), Some(Token::Word(_)))
            && self.tokens.ahead(at + 1) == Some(&Token::Period)
        {
            at += 2;
        }
        matches!(self.tokens.ahead(at), Some(Token::Word(_)))
            && match self.tokens.ahead(at + 1) {
                Some(Token::Assignment) => true,
                Some(Token::Eq) => self.dialect == Dialect::Postgres,
                _ => false,
            }
    }

    fn assignment(&mut self) -> Result<StepKind, Error> {
        let target = self.tokens.names()?;
        self.tokens.next();
        Ok(StepKind::Assign { target, value: self.code_until(&[])? })
    }

    fn condition(&mut self) -> Result<StepKind, Error> {
        self.tokens.expect(&["if"])?;
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        loop {
            let condition = self.code_until(&["then"])?;
            self.tokens.expect(&["then"])?;
            let steps = self.steps(&["elsif", "elseif", "else", "end"])?;
            branches.push(Branch { condition, steps });
            if !(self.tokens.takes(&["elsif"]) || self.tokens.takes(&["elseif"])) {
                break;
            }
        }
        if self.tokens.takes(&["else"]) {
            otherwise = self.steps(&["end"])?;
        }
        self.tokens.expect(&["end", "if"])?;
        self.end_of_statement()?;
        Ok(StepKind::If { branches, otherwise })
    }

    fn case(&mut self) -> Result<StepKind, Error> {
        self.tokens.expect(&["case"])?;
        let operand = match self.tokens.is(&["when"]) {
            true => None,
            false => Some(self.code_until(&["when"])?),
        };
        let mut branches = Vec::new();
        while self.tokens.takes(&["when"]) {
            let mut condition = self.code_until(&["then"])?;
            if let Some(operand) = &operand {
                condition = condition.compared_with(operand);
            }
            self.tokens.expect(&["then"])?;
            branches.push(Branch { condition, steps: self.steps(&["when", "else", "end"])? });
        }
        let otherwise = match self.tokens.takes(&["else"]) {
            true => Some(self.steps(&["end"])?),
            false => None,
        };
        self.tokens.expect(&["end", "case"])?;
        self.end_of_statement()?;
        Ok(StepKind::Case { branches, otherwise })
    }

    fn leave(&mut self, exits: bool) -> Result<StepKind, Error> {
        self.tokens.next();
        let label = match self.tokens.peek() {
            Some(Token::Word(_)) if !self.tokens.is(&["when"]) => Some(self.tokens.name()?),
            _ => None,
        };
        let when = match self.tokens.takes(&["when"]) {
            true => Some(self.code_until(&[])?),
            false => None,
        };
        Ok(match exits {
            true => StepKind::Exit { label, when },
            false => StepKind::Continue { label, when },
        })
    }

    /// LOOP, WHILE or FOR.
    pub(super) fn looped(&mut self, label: Option<String>) -> Result<StepKind, Error> {
        let kind = match self.tokens.word_ahead(0).as_deref() {
            Some("while") => {
                self.tokens.expect(&["while"])?;
                let condition = self.code_until(&["loop"])?;
                StepKind::While { label, condition, steps: self.body()? }
            }
            Some("for") => {
                self.tokens.expect(&["for"])?;
                let variable = self.tokens.name()?;
                self.tokens.expect(&["in"])?;
                self.over(label, variable)?
            }
            _ => StepKind::Loop { label, steps: self.body()? },
        };
        self.end_of_statement()?;
        Ok(kind)
    }

    fn body(&mut self) -> Result<Vec<Step>, Error> {
        self.tokens.expect(&["loop"])?;
        let steps = self.steps(&["end"])?;
        self.tokens.expect(&["end", "loop"])?;
        if matches!(self.tokens.peek(), Some(Token::Word(_))) {
            self.tokens.name()?;
        }
        Ok(steps)
    }

    /// What FOR goes over: a range, or the rows of a query.
    fn over(&mut self, label: Option<String>, variable: String) -> Result<StepKind, Error> {
        let at = self.tokens.position();
        let is_query = |word: Option<String>| {
            word.is_some_and(|word| ["select", "with", "values", "table"].contains(&word.as_str()))
        };
        let in_parentheses = self.tokens.peek() == Some(&Token::LParen);
        if in_parentheses && is_query(self.tokens.word_ahead(1)) {
            self.tokens.next();
            let query = self.code_until(&[])?;
            self.tokens.expect_token(&Token::RParen)?;
            return Ok(StepKind::ForRows { label, variable, query, steps: self.body()? });
        }
        if is_query(self.tokens.word_ahead(0)) {
            let query = self.code_until(&["loop"])?;
            return Ok(StepKind::ForRows { label, variable, query, steps: self.body()? });
        }
        if self.tokens.is(&["execute"]) {
            return Err(self.refused("FOR .. IN EXECUTE", at));
        }
        let is_reverse = self.tokens.takes(&["reverse"]);
        let from = self.code_until(&[])?;
        self.tokens.expect_token(&Token::Char(RANGE))?;
        let to = self.code_until(&["loop", "by"])?;
        let by = match self.tokens.takes(&["by"]) {
            true => Some(self.code_until(&["loop"])?),
            false => None,
        };
        let steps = self.body()?;
        Ok(StepKind::ForRange { label, variable, is_reverse, from, to, by, steps })
    }

    fn raise(&mut self) -> Result<Raise, Error> {
        self.tokens.expect(&["raise"])?;
        if self.tokens.peek() == Some(&Token::SemiColon) {
            return Ok(Raise::Again);
        }
        let at = self.tokens.position();
        let level = match self.tokens.word_ahead(0).as_deref() {
            Some("notice" | "warning" | "info") => Some(RaiseLevel::Notice),
            Some("debug" | "log") => Some(RaiseLevel::Silent),
            Some("exception") => Some(RaiseLevel::Exception),
            _ => None,
        };
        if level.is_some() {
            self.tokens.next();
        }
        let level = level.unwrap_or(RaiseLevel::Exception);
        let Some(Token::SingleQuotedString(format)) = self.tokens.peek().cloned() else {
            if self.tokens.is(&["sqlstate"]) {
                return Err(self.refused("RAISE SQLSTATE", at));
            }
            return Ok(Raise::Named(self.tokens.name()?));
        };
        self.tokens.next();
        let format = format.replace("''", "'");
        let mut values = Vec::new();
        while self.tokens.takes_token(&Token::Comma) {
            values.push(self.code_until(&[",", "using"])?);
        }
        let mut code = None;
        if self.tokens.takes(&["using"]) {
            loop {
                let what = self.tokens.name()?;
                if !self.tokens.takes_token(&Token::Eq) {
                    self.tokens.expect_token(&Token::Assignment)?;
                }
                let value = self.code_until(&[","])?;
                if what == "errcode" {
                    code = Some(value);
                }
                if !self.tokens.takes_token(&Token::Comma) {
                    break;
                }
            }
        }
        Ok(Raise::Text { level, format, values, code })
    }

    fn application_error(&mut self) -> Result<Raise, Error> {
        self.tokens.next();
        self.tokens.expect_token(&Token::LParen)?;
        let number = self.code_until(&[","])?;
        self.tokens.expect_token(&Token::Comma)?;
        let text = self.code_until(&[","])?;
        if self.tokens.takes_token(&Token::Comma) {
            self.code_until(&[])?;
        }
        self.tokens.expect_token(&Token::RParen)?;
        Ok(Raise::Application { number, text })
    }

    /// Calls of the packages that blocks use.
    fn packaged(&mut self) -> Result<StepKind, Error> {
        let at = self.tokens.position();
        let names = self.tokens.names()?;
        let what = names.join(".");
        if matches!(what.as_str(), "dbms_output.enable" | "dbms_output.disable") {
            self.tokens_until(&[]);
            return Ok(StepKind::Nothing);
        }
        let one = |reader: &mut Reader| {
            reader.tokens.expect_token(&Token::LParen)?;
            let code = reader.code_until(&[])?;
            reader.tokens.expect_token(&Token::RParen)?;
            Ok::<Code, Error>(code)
        };
        match what.as_str() {
            "dbms_output.put_line" => Ok(StepKind::Print(one(self)?)),
            "dbms_lock.sleep" | "dbms_session.sleep" => Ok(StepKind::Sleep(one(self)?)),
            other => Err(self.refused(&other.to_uppercase(), at)),
        }
    }

    fn perform(&mut self) -> Result<StepKind, Error> {
        let at = self.tokens.position();
        self.tokens.next();
        let code = self.code_until(&[])?;
        Ok(StepKind::Perform(code.behind(PERFORM, at)))
    }

    fn dynamic(&mut self) -> Result<StepKind, Error> {
        self.tokens.expect(&["execute"])?;
        self.tokens.takes(&["immediate"]);
        let text = self.code_until(&["into", "using"])?;
        let (mut into, mut using) = (None, Vec::new());
        loop {
            if self.tokens.takes(&["into"]) {
                into = Some(self.into()?);
            } else if self.tokens.takes(&["using"]) {
                loop {
                    self.tokens.takes(&["in"]);
                    using.push(self.code_until(&[",", "into"])?);
                    if !self.tokens.takes_token(&Token::Comma) {
                        break;
                    }
                }
            } else {
                break;
            }
        }
        Ok(StepKind::Dynamic { text, into, using })
    }

    /// Where values go, behind INTO.
    fn into(&mut self) -> Result<Into, Error> {
        let is_strict = self.tokens.takes(&["strict"]) || self.dialect == Dialect::Oracle;
        let mut targets = vec![self.tokens.names()?];
        while self.tokens.takes_token(&Token::Comma) {
            targets.push(self.tokens.names()?);
        }
        Ok(Into { targets, is_strict })
    }

    /// A statement of SQL, with INTO taken out.
    fn sql(&mut self) -> Result<StepKind, Error> {
        let at = self.tokens.position();
        let first = self.tokens.word_ahead(0).unwrap_or_default();
        let mut taken: Vec<TokenWithSpan> = Vec::new();
        let (mut depth, mut may_go_into, mut into) = (0usize, first != "insert", None);
        if first == "merge" {
            return Err(self.refused("MERGE", at));
        }
        while let Some(token) = self.tokens.peek() {
            if *token == Token::SemiColon {
                break;
            }
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            let word = word_of(token);
            may_go_into |= depth == 0 && word.as_deref() == Some("returning");
            if depth == 0 && may_go_into && into.is_none() && word.as_deref() == Some("into") {
                self.tokens.next();
                into = Some(self.into()?);
                continue;
            }
            while let Some(own) = self.tokens.next_raw() {
                let is_blank = matches!(own.token, Token::Whitespace(_));
                if !(is_blank && taken.is_empty()) {
                    taken.push(own);
                }
                if !is_blank {
                    break;
                }
            }
        }
        if taken.is_empty() {
            return Err(self.tokens.wrong("a statement"));
        }
        Ok(StepKind::Sql { code: Code::of(&taken, at), into })
    }
}
