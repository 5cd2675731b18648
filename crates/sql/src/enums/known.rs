//! The enum type of a field: its oid, its name, its labels with their codes.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use cellar_format::rows::{Labels, RowError, RowLayout};
use cellar_instance::catalog::{Catalog, Table, enum_of_form, form_of_enum};
use serde_json::Value;

use crate::error::{Error, shown};
use crate::json::form::{FORM, Form};

/// The metadata key, in a field, for the labels of its type.
const LABELS: &str = "labels";

/// An enum type as described in fields.
#[derive(Debug)]
pub(crate) struct EnumInfo {
    /// Its oid, as clients know it.
    pub oid: u32,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// The labels as a text.
    text: String,
}

impl PartialEq for EnumInfo {
    fn eq(&self, other: &EnumInfo) -> bool {
        self.oid == other.oid && self.text == other.text
    }
}

impl Eq for EnumInfo {}

impl Hash for EnumInfo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid.hash(state);
    }
}

impl EnumInfo {
    /// The enum type of a catalog entry; `None`: it is not one.
    pub fn of(table: &Table) -> Option<EnumInfo> {
        let own = &table.labels.as_ref()?.labels;
        let said = own.iter().filter(|label| !label.is_new);
        let said = said.map(|label| serde_json::json!([label.name, label.code]));
        let new: Vec<&str> =
            own.iter().filter(|label| label.is_new).map(|label| label.name.as_str()).collect();
        let name = shown(table.name.clone());
        let text = serde_json::json!({
            "name": name,
            "labels": said.collect::<Vec<_>>(),
            "new": new,
        });
        EnumInfo::of_text(table.oid(), text.to_string())
    }

    fn of_text(oid: u32, text: String) -> Option<EnumInfo> {
        let value: Value = serde_json::from_str(&text).ok()?;
        let own = value["labels"].as_array()?.iter();
        let own =
            own.map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned())));
        let new = value["new"].as_array()?.iter();
        let new = new.filter_map(|label| label.as_str().map(str::to_owned)).collect();
        let name = value["name"].as_str()?.to_owned();
        let mut labels = Labels::new(name, own.collect::<Option<_>>()?);
        labels.new = new;
        Some(EnumInfo { oid, labels: Arc::new(labels), text })
    }

    /// The enum type of the texts of a field, or of the items of its arrays; `None`: there is none.
    pub fn of_field(field: &Field) -> Option<EnumInfo> {
        let metadata = field.metadata();
        let text = metadata.get(LABELS)?;
        EnumInfo::of_text(enum_of_form(metadata.get(FORM)?)?, text.clone())
    }

    /// Whether a field has an enum type.
    pub fn is_in(field: &Field) -> bool {
        field.metadata().contains_key(LABELS)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.labels.name
    }

    /// A field whose texts are of this type.
    pub fn field(&self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(FORM.to_owned(), form_of_enum(self.oid));
        metadata.insert(LABELS.to_owned(), self.text.clone());
        field.with_metadata(metadata)
    }

    /// A field of its values, or of arrays of them.
    pub fn own_field(&self, is_list: bool) -> FieldRef {
        let data_type = match is_list {
            true => DataType::new_list(DataType::Utf8, true),
            false => DataType::Utf8,
        };
        Arc::new(self.field(Field::new("value", data_type, true)))
    }

    /// The code of a label.
    ///
    /// # Errors
    /// 22P02 there is no such label.
    pub fn code(&self, label: &str) -> Result<&str, Error> {
        self.labels.code(label).ok_or_else(|| no_label(&self.labels, label))
    }
}

/// The error for a text that is not a label.
pub(crate) fn no_label(labels: &Labels, label: &str) -> Error {
    let name = &labels.name;
    if labels.new.iter().any(|own| own == label) {
        let text = format!("unsafe use of new value \"{label}\" of enum type {name}");
        return Error::new(1722, "55P04", text)
            .next("COMMIT first: new values are used by transactions that begin behind it");
    }
    let text = format!("invalid input value for enum {name}: \"{label}\"");
    let known: Vec<&str> = labels.labels().take(20).collect();
    Error::new(1722, "22P02", text).next(match known.is_empty() {
        true => format!("it has no values: alter type {name} add value '..'"),
        false => format!("its values are {}", known.join(", ")),
    })
}

/// The metadata of a column that queries need: the type that its texts stand for.
pub(crate) fn query_metadata(field: &Field) -> HashMap<String, String> {
    let kept = [FORM, LABELS].into_iter().filter_map(|key| {
        let own = field.metadata().get(key)?;
        Some((key.to_owned(), own.clone()))
    });
    kept.collect()
}

/// A column of the catalog with the labels of its type.
pub(crate) fn field_with_labels(field: &Field, catalog: &Catalog) -> Option<(Table, Field)> {
    let oid = enum_of_form(field.metadata().get(FORM)?)?;
    let (table, _) = catalog.enum_by_oid(oid)?;
    let info = EnumInfo::of(table)?;
    Some((table.clone(), info.field(field.clone())))
}

/// The layout of rows with such columns.
///
/// # Errors
/// Those of [`RowLayout::of`].
pub(crate) fn layout_of(schema: &Schema) -> Result<RowLayout, RowError> {
    let mut layout = RowLayout::of(schema)?;
    for (at, field) in schema.fields().iter().enumerate() {
        if let Some(info) = EnumInfo::of_field(field) {
            layout = layout.with_labels(at, info.labels)?;
        }
    }
    Ok(layout)
}

/// The type of a field, as statements name it.
pub(crate) fn type_word_of(field: &Field) -> String {
    let form = field.metadata().get(FORM).and_then(|form| Form::of(form));
    match (form, field.data_type()) {
        (Some(form), DataType::List(_)) => format!("{}[]", form.name()),
        (Some(form), _) => form.name().to_owned(),
        (None, data_type) => type_word(data_type),
    }
}

/// The name of a type in messages about operators.
pub(crate) fn type_word(data_type: &DataType) -> String {
    let word = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) => "interval",
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "bytea",
        DataType::List(item) => return format!("{}[]", type_word(item.data_type())),
        _ => "text",
    };
    word.to_owned()
}
