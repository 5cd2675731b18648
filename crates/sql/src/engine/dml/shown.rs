//! The query behind a statement that changes or locks rows, as EXPLAIN shows it.

use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement, TableObject};

use crate::allowed;
use crate::engine::Engine;
use crate::error::Error;
use crate::explain::facts::Kind;

fn write(verb: &'static str, target: String) -> Kind {
    Kind::Write { verb, target }
}

impl Engine {
    /// The query that finds or makes the rows, and what is done with them; `None`: it is another statement.
    ///
    /// # Errors
    /// Those of the statement itself, as far as its text shows them.
    pub(in crate::engine) fn query_behind(
        &self,
        statement: &SqlStatement,
    ) -> Result<Option<(Query, Kind)>, Error> {
        Ok(match statement {
            SqlStatement::Update(update) => {
                let selected = self.selected_by_update(None, update.clone())?;
                Some((selected.query, write("update", selected.columns.name)))
            }
            SqlStatement::Delete(delete) => {
                let (_, selected) = self.selected_by_delete(None, delete.clone())?;
                Some((selected.query, write("delete from", selected.columns.name)))
            }
            SqlStatement::Insert(insert) if self.is_of_rows(insert) => {
                let TableObject::TableName(name) = &insert.table else { return Ok(None) };
                let source = insert.source.as_ref().map(|source| source.as_ref().clone());
                source.map(|source| (source, write("insert into", name.to_string())))
            }
            SqlStatement::Query(query) if allowed::locks_rows(query) => {
                let mut query = query.as_ref().clone();
                let tables: Vec<String> =
                    query.locks.iter().flat_map(|lock| &lock.of).map(ToString::to_string).collect();
                query.locks.clear();
                let target = match tables.is_empty() || allowed::locks_rows(&query) {
                    true => "rows".to_owned(),
                    false => format!("rows of {}", tables.join(", ")),
                };
                (!allowed::locks_rows(&query)).then_some((query, write("lock", target)))
            }
            _ => None,
        })
    }
}
