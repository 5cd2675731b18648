//! The declarations of a block.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::read::Reader;
use super::tokens::folded;
use super::tree::{Declared, Variable};
use crate::error::Error;

impl Reader {
    /// What stands between DECLARE and BEGIN.
    pub(super) fn declarations(&mut self) -> Result<Vec<Variable>, Error> {
        let mut variables = Vec::new();
        while !self.tokens.is(&["begin"]) {
            if self.tokens.takes(&["declare"]) {
                continue;
            }
            for word in ["type", "subtype", "cursor", "procedure", "function", "pragma"] {
                if self.tokens.is(&[word]) {
                    let at = self.tokens.position();
                    let what = format!("{} in a block", word.to_uppercase());
                    return Err(Error::not_yet(what).at(at));
                }
            }
            variables.push(self.declaration()?);
        }
        Ok(variables)
    }

    fn declaration(&mut self) -> Result<Variable, Error> {
        let at = self.tokens.position();
        let name = self.tokens.name()?;
        let is_constant = self.tokens.takes(&["constant"]);
        let declared = self.declared()?;
        let not_null = self.tokens.takes(&["not", "null"]);
        let has_default = self.tokens.takes_token(&Token::Assignment)
            || self.tokens.takes(&["default"])
            || self.tokens.takes_token(&Token::Eq);
        let default = match has_default {
            true => Some(self.code_until(&[])?),
            false => None,
        };
        self.end_of_statement()?;
        if let (true, None) = (is_constant || not_null, &default) {
            let text = format!("variable \"{name}\" needs a value: it is CONSTANT or NOT NULL");
            return Err(Error::syntax(text).at(at).next("give it one: name type := value"));
        }
        Ok(Variable { at, name, declared, default, is_constant, not_null })
    }

    fn declared(&mut self) -> Result<Declared, Error> {
        if self.tokens.takes(&["record"]) {
            return Ok(Declared::Record);
        }
        if self.tokens.takes(&["exception"]) {
            return Ok(Declared::Exception);
        }
        let at = self.tokens.position();
        let mut taken = Vec::new();
        while let Some(token) = self.tokens.peek() {
            let is_end = matches!(token, Token::SemiColon | Token::Assignment | Token::Eq)
                || self.tokens.is(&["default"])
                || self.tokens.is(&["not", "null"]);
            if is_end {
                break;
            }
            taken.extend(self.tokens.next());
        }
        let tokens: Vec<&Token> = taken.iter().map(|own| &own.token).collect();
        if let [names @ .., Token::Mod, Token::Word(word)] = &tokens[..] {
            let name = |token: &&Token| match token {
                Token::Word(word) => Some(folded(word)),
                _ => None,
            };
            let names = names.iter().filter_map(name).collect();
            return match word.value.to_ascii_lowercase().as_str() {
                "type" => Ok(Declared::LikeColumn(names)),
                "rowtype" => Ok(Declared::LikeRow(names)),
                other => {
                    Err(Error::syntax(format!("expected %TYPE or %ROWTYPE, found %{other}")).at(at))
                }
            };
        }
        if tokens.is_empty() {
            return Err(self.tokens.wrong("a type"));
        }
        let words: Vec<String> = tokens.iter().map(ToString::to_string).collect();
        Ok(Declared::Type(words.join(" ")))
    }
}
