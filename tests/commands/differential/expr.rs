//! Conditions and expressions at random: as SQL, and as a plain loop computes them.

use std::cmp::Ordering;

use super::table::{COLUMNS, Row};
use super::value::Value;
use crate::chance::Chance;

/// A number, date or text.
#[derive(Clone, Debug)]
pub enum Term {
    Column(usize),
    Literal(Value, String),
    /// Whole numbers or decimals only: a sum, difference or product, and the greatest result that its
    /// type holds.
    Arithmetic(Box<Term>, char, Box<Term>, i128),
}

/// What arithmetic gives beyond its type.
#[derive(Debug)]
pub struct Overflow;

impl Term {
    pub fn sql(&self) -> String {
        match self {
            Term::Column(at) => COLUMNS[*at].0.to_owned(),
            Term::Literal(_, text) => text.clone(),
            Term::Arithmetic(a, sign, b, _) => format!("({} {sign} {})", a.sql(), b.sql()),
        }
    }

    pub fn of(&self, row: &Row) -> Result<Value, Overflow> {
        Ok(match self {
            Term::Column(at) => row[*at].clone(),
            Term::Literal(value, _) => value.clone(),
            Term::Arithmetic(a, sign, b, most) => {
                let (a, b) = (a.of(row)?, b.of(row)?);
                let (Value::Decimal(a, s), Value::Decimal(b, t)) = (a, b) else {
                    return Ok(Value::Null);
                };
                let (result, scale) = match sign {
                    '*' => (a.checked_mul(b), s + t),
                    _ => {
                        let scale = s.max(t);
                        let a = a.checked_mul(10i128.pow(scale - s)).ok_or(Overflow)?;
                        let b = b.checked_mul(10i128.pow(scale - t)).ok_or(Overflow)?;
                        (if *sign == '+' { a.checked_add(b) } else { a.checked_sub(b) }, scale)
                    }
                };
                let result = result.filter(|own| (-most - 1..=*most).contains(own));
                Value::Decimal(result.ok_or(Overflow)?, scale)
            }
        })
    }
}

#[derive(Debug)]
pub enum Condition {
    Compare(Term, &'static str, Term),
    In(Term, Vec<Term>, bool),
    Between(Term, Term, Term),
    IsNull(Term, bool),
    Distinct(Term, Term, bool),
    /// In the values of another table, with or without a null among them.
    InTable(Term, bool, bool),
    Not(Box<Condition>),
    Both(Box<Condition>, bool, Box<Condition>),
}

/// The numbers of the small tables that [`Condition::InTable`] asks.
pub const OF_TABLE: [i64; 3] = [3, 7, 50];

fn truth(known: Option<Ordering>, sign: &str) -> Option<bool> {
    known.map(|order| match sign {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn not(a: Option<bool>) -> Option<bool> {
    a.map(|a| !a)
}

impl Condition {
    pub fn sql(&self) -> String {
        let word = |negated: &bool| if *negated { "not " } else { "" };
        match self {
            Condition::Compare(a, sign, b) => format!("{} {sign} {}", a.sql(), b.sql()),
            Condition::In(a, list, negated) => {
                let list: Vec<String> = list.iter().map(Term::sql).collect();
                format!("{} {}in ({})", a.sql(), word(negated), list.join(", "))
            }
            Condition::Between(a, low, high) => {
                format!("{} between {} and {}", a.sql(), low.sql(), high.sql())
            }
            Condition::IsNull(a, negated) => format!("{} is {}null", a.sql(), word(negated)),
            Condition::Distinct(a, b, negated) => {
                format!("{} is {}distinct from {}", a.sql(), word(negated), b.sql())
            }
            Condition::InTable(a, has_null, negated) => {
                let table = if *has_null { "with_null" } else { "without_null" };
                format!("{} {}in (select v from {table})", a.sql(), word(negated))
            }
            Condition::Not(inner) => format!("not ({})", inner.sql()),
            Condition::Both(a, is_and, b) => {
                format!("({} {} {})", a.sql(), if *is_and { "and" } else { "or" }, b.sql())
            }
        }
    }

    pub fn of(&self, row: &Row) -> Result<Option<bool>, Overflow> {
        Ok(match self {
            Condition::Compare(a, sign, b) => truth(a.of(row)?.compare(&b.of(row)?), sign),
            Condition::In(a, list, negated) => {
                let a = a.of(row)?;
                let mut any = Some(false);
                for item in list {
                    any = or(any, truth(a.compare(&item.of(row)?), "="));
                }
                if *negated { not(any) } else { any }
            }
            Condition::Between(a, low, high) => {
                let a = a.of(row)?;
                let (above, below) =
                    (truth(a.compare(&low.of(row)?), ">="), truth(a.compare(&high.of(row)?), "<="));
                not(or(not(above), not(below)))
            }
            Condition::IsNull(a, negated) => Some(a.of(row)?.is_null() != *negated),
            Condition::Distinct(a, b, negated) => {
                let (a, b) = (a.of(row)?, b.of(row)?);
                let same = match a.compare(&b) {
                    Some(order) => order.is_eq(),
                    None => a.is_null() && b.is_null(),
                };
                Some(same == *negated)
            }
            Condition::InTable(a, has_null, negated) => {
                let a = a.of(row)?;
                let mut found = Some(false);
                for own in &OF_TABLE {
                    found = or(found, truth(a.compare(&Value::whole(*own)), "="));
                }
                let any = if *has_null { or(found, None) } else { found };
                if *negated { not(any) } else { any }
            }
            Condition::Not(inner) => not(inner.of(row)?),
            Condition::Both(a, is_and, b) => {
                let (a, b) = (a.of(row)?, b.of(row)?);
                if *is_and { not(or(not(a), not(b))) } else { or(a, b) }
            }
        })
    }

    pub fn random(chance: &mut Chance, depth: usize) -> Condition {
        if depth > 0 && chance.below(3) == 0 {
            let a = Box::new(Condition::random(chance, depth - 1));
            let b = Box::new(Condition::random(chance, depth - 1));
            return Condition::Both(a, chance.below(2) == 0, b);
        }
        if depth > 0 && chance.below(6) == 0 {
            return Condition::Not(Box::new(Condition::random(chance, depth - 1)));
        }
        let column = chance.below(COLUMNS.len());
        let one = term(chance, column);
        let negated = chance.below(2) == 0;
        match chance.below(12) {
            0 => Condition::IsNull(one, negated),
            1 => Condition::Distinct(one, literal(chance, column), negated),
            2 => {
                let count = 1 + chance.below(6);
                let list = (0..count).map(|_| literal(chance, column)).collect();
                Condition::In(one, list, negated)
            }
            3 => {
                let (low, high) = (literal(chance, column), literal(chance, column));
                Condition::Between(one, low, high)
            }
            4 | 5 if COLUMNS[column].1.is_number() => {
                Condition::InTable(Term::Column(column), negated, chance.below(2) == 0)
            }
            6 if COLUMNS[column].1.is_number() => {
                let other = chance.below(COLUMNS.len());
                let other = if COLUMNS[other].1.is_number() { other } else { column };
                Condition::Compare(one, sign(chance), Term::Column(other))
            }
            _ => Condition::Compare(one, sign(chance), literal(chance, column)),
        }
    }
}

fn sign(chance: &mut Chance) -> &'static str {
    ["=", "<>", "<", "<=", ">", ">="][chance.below(6)]
}

/// The column, or where it is exact, something computed of it.
fn term(chance: &mut Chance, column: usize) -> Term {
    let own = Term::Column(column);
    let Some(most) = COLUMNS[column].1.most() else { return own };
    if chance.below(4) > 0 {
        return own;
    }
    let number = [1, 2, 3, 1000][chance.below(4)];
    let literal = Term::Literal(Value::whole(number), number.to_string());
    let sign = ['+', '-', '*'][chance.below(3)];
    Term::Arithmetic(Box::new(own), sign, Box::new(literal), most)
}

fn literal(chance: &mut Chance, column: usize) -> Term {
    let (value, text) = COLUMNS[column].1.literal(chance);
    Term::Literal(value, text)
}
