//! Variables of a block and their values: arrays of one.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::TableReference;

use super::names::Named;
use super::{Run, place_of};
use crate::blocks::{Code, Declared, Variable};
use crate::engine::prepared::Parameter;
use crate::error::Error;

/// A variable with a type.
#[derive(Debug)]
pub(super) struct Slot {
    pub name: String,
    pub data_type: DataType,
    /// The most characters of a text.
    pub length: Option<usize>,
    pub value: ArrayRef,
    pub is_constant: bool,
    pub not_null: bool,
}

/// A row: its columns and their values.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub name: String,
    pub row: Option<(SchemaRef, Vec<ArrayRef>)>,
}

/// All variables; a block that is entered again uses the same ones.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub all: Vec<Slot>,
    pub records: Vec<Record>,
    by_place: HashMap<usize, usize>,
    record_by_place: HashMap<usize, usize>,
    /// SQL%ROWCOUNT.
    pub row_count: i64,
    /// FOUND.
    pub found: bool,
}

impl Slots {
    /// The slot of what is declared at a place, with this in it.
    pub fn at(&mut self, place: usize, slot: Slot) -> usize {
        match self.by_place.get(&place) {
            Some(at) => {
                self.all[*at] = slot;
                *at
            }
            None => {
                self.all.push(slot);
                self.by_place.insert(place, self.all.len() - 1);
                self.all.len() - 1
            }
        }
    }

    /// The row that is declared at a place, without values.
    pub fn record_at(&mut self, place: usize, record: Record) -> usize {
        match self.record_by_place.get(&place) {
            Some(at) => {
                self.records[*at] = record;
                *at
            }
            None => {
                self.records.push(record);
                self.record_by_place.insert(place, self.records.len() - 1);
                self.records.len() - 1
            }
        }
    }

    /// Gives a variable a value.
    ///
    /// # Errors
    /// 22003, 22P02 it is not of its type; 22001 it is too long; 22004 NULL.
    pub fn set(&mut self, at: usize, value: &ArrayRef) -> Result<(), Error> {
        let slot = &mut self.all[at];
        let value = match value.data_type() == &slot.data_type {
            true => Arc::clone(value),
            false => Parameter::Value(Arc::clone(value)).array(&slot.data_type)?,
        };
        if slot.not_null && value.is_null(0) {
            let text = format!("NULL for variable \"{}\", which is NOT NULL", slot.name);
            return Err(Error::new(6502, "22004", text));
        }
        if let (Some(length), Some(texts)) = (slot.length, value.as_string_opt::<i32>())
            && value.is_valid(0)
            && texts.value(0).chars().count() > length
        {
            let text =
                format!("a value for variable \"{}\" has more than {length} characters", slot.name);
            return Err(Error::new(6502, "22001", text).next("declare it longer"));
        }
        slot.value = value;
        Ok(())
    }
}

/// The length in a type such as `varchar2(30)`.
fn length_of(said: &str) -> Option<usize> {
    let said = said.to_ascii_lowercase();
    let is_text = ["varchar", "char", "character"].iter().any(|word| said.starts_with(word));
    let (_, rest) = said.split_once('(').filter(|_| is_text)?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Oracle's types of blocks by the names that SQL has.
fn sql_type(said: &str) -> &str {
    match said.to_ascii_lowercase().as_str() {
        "pls_integer" | "binary_integer" | "simple_integer" | "natural" | "positive" => "integer",
        "string" => "text",
        _ => said,
    }
}

impl Run<'_> {
    /// Declares a variable, with its first value.
    pub(super) async fn declare(&mut self, variable: &Variable) -> Result<(), Error> {
        let place = place_of(variable);
        let named = match &variable.declared {
            Declared::Exception => Named::Exception,
            Declared::Record => self.new_record(place, &variable.name, None),
            Declared::LikeRow(names) => {
                let schema = self.schema_of(names).await?;
                self.new_record(place, &variable.name, Some(schema))
            }
            Declared::Type(said) => {
                let data_type = self.type_of(sql_type(said))?;
                self.new_slot(place, variable, data_type, length_of(said))
            }
            Declared::LikeColumn(names) => {
                let (data_type, length) = self.like(names).await?;
                self.new_slot(place, variable, data_type, length)
            }
        };
        // The default does not see the variable itself, but one outside that it hides.
        match (&named, &variable.default) {
            (_, None) => {}
            (Named::Slot(slot), Some(default)) => self.put(*slot, default, true).await?,
            (_, Some(_)) => return Err(Error::not_yet("a default of a record")),
        }
        if !self.scopes.add(&variable.name, named) {
            let text = format!("variable \"{}\" is declared twice", variable.name);
            return Err(Error::new(957, "42701", text));
        }
        Ok(())
    }

    fn new_record(&mut self, place: usize, name: &str, schema: Option<SchemaRef>) -> Named {
        let nulls = |schema: SchemaRef| {
            let values = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1));
            let values = values.collect();
            (schema, values)
        };
        let record = Record { name: name.to_owned(), row: schema.map(nulls) };
        Named::Record(self.slots.record_at(place, record))
    }

    fn new_slot(
        &mut self,
        place: usize,
        variable: &Variable,
        data_type: DataType,
        length: Option<usize>,
    ) -> Named {
        let value = new_null_array(&data_type, 1);
        let (name, is_constant) = (variable.name.clone(), variable.is_constant);
        let not_null = variable.not_null;
        let slot = Slot { name, data_type, length, value, is_constant, not_null };
        Named::Slot(self.slots.at(place, slot))
    }

    /// The type of `x%TYPE`, and the most characters of its values.
    async fn like(&mut self, names: &[String]) -> Result<(DataType, Option<usize>), Error> {
        match self.scopes.find(names) {
            Some(Named::Slot(slot)) => {
                let slot = &self.slots.all[slot];
                return Ok((slot.data_type.clone(), slot.length));
            }
            Some(Named::Field(record, field)) => {
                let (schema, _) = self.row_of(record)?;
                let found = schema.field_with_name(&field).map_err(|_| no_field(&field))?;
                return Ok((found.data_type().clone(), None));
            }
            _ => {}
        }
        let [table @ .., column] = names else { return Err(no_field("")) };
        if table.is_empty() {
            let text = format!("variable \"{column}\" does not exist");
            return Err(Error::new(904, "42704", text).next("name a column: table.column%TYPE"));
        }
        let schema = self.schema_of(table).await?;
        let field = schema.field_with_name(column).map_err(|_| {
            let text =
                format!("column \"{column}\" of table \"{}\" does not exist", table.join("."));
            Error::new(904, "42703", text)
        })?;
        Ok((field.data_type().clone(), crate::columnar::table::length_of(field)))
    }

    /// The columns of a table.
    pub(super) async fn schema_of(&self, names: &[String]) -> Result<SchemaRef, Error> {
        let name = names.join(".");
        let reference = TableReference::parse_str(&name);
        let context = self.engine.context();
        match context.table_provider(reference).await {
            Ok(table) => Ok(table.schema()),
            Err(_) => Err(Error::new(942, "42P01", format!("table \"{name}\" does not exist"))),
        }
    }

    /// Assigns the value of an expression.
    pub(super) async fn assign(&mut self, target: &[String], value: &Code) -> Result<(), Error> {
        match self.scopes.find(target) {
            Some(Named::Slot(slot)) => self.put(slot, value, false).await,
            Some(Named::Field(record, field)) => {
                let (schema, _) = self.row_of(record)?;
                let at = schema.index_of(&field).map_err(|_| no_field(&field))?;
                let data_type = schema.field(at).data_type().clone();
                let value = self.value(value, Some(&data_type)).await?;
                if let Some((_, values)) = &mut self.slots.records[record].row {
                    values[at] = value;
                }
                Ok(())
            }
            Some(_) => Err(Error::not_yet(format!("an assignment to \"{}\"", target.join(".")))
                .next("SELECT .. INTO it, or assign its fields")),
            None => Err(no_variable(target)),
        }
    }

    async fn put(&mut self, slot: usize, value: &Code, is_first: bool) -> Result<(), Error> {
        let own = &self.slots.all[slot];
        if own.is_constant && !is_first {
            let text = format!("variable \"{}\" is CONSTANT", own.name);
            return Err(Error::new(6550, "22005", text));
        }
        let data_type = own.data_type.clone();
        let value = self.value(value, Some(&data_type)).await?;
        self.slots.set(slot, &value)
    }

    /// Gives a target of INTO its value.
    pub(super) fn put_into(&mut self, target: &[String], value: &ArrayRef) -> Result<(), Error> {
        match self.scopes.find(target) {
            Some(Named::Slot(slot)) => self.slots.set(slot, value),
            Some(Named::Field(record, field)) => {
                let (schema, _) = self.row_of(record)?;
                let at = schema.index_of(&field).map_err(|_| no_field(&field))?;
                let value =
                    Parameter::Value(Arc::clone(value)).array(schema.field(at).data_type())?;
                if let Some((_, values)) = &mut self.slots.records[record].row {
                    values[at] = value;
                }
                Ok(())
            }
            _ => Err(no_variable(target)),
        }
    }

    /// The row in a record.
    pub(super) fn row_of(&self, record: usize) -> Result<(SchemaRef, &[ArrayRef]), Error> {
        let own = &self.slots.records[record];
        match &own.row {
            Some((schema, values)) => Ok((Arc::clone(schema), values)),
            None => {
                let text = format!("record \"{}\" has no row yet", own.name);
                Err(Error::new(6530, "55000", text).next("SELECT .. INTO it first"))
            }
        }
    }
}

pub(super) fn no_field(field: &str) -> Error {
    Error::new(904, "42703", format!("the record has no field \"{field}\""))
}

pub(super) fn no_variable(target: &[String]) -> Error {
    let text = format!("\"{}\" is no variable", target.join("."));
    Error::new(904, "42601", text).next("declare it: DECLARE name type;")
}
