//! `obj_description` and `col_description` as functions: of an object by its name, as `'schema.name'`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use cellar_instance::catalog::{Catalog, name};
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::columnar::table::checked_schema;
use crate::host::Host;
use crate::names::path::Paths;

/// The second argument of `obj_description` that means a schema.
const SCHEMAS: &str = "pg_namespace";

/// A function that tells what is written about something.
pub(super) struct OfComments {
    host: Arc<dyn Host>,
    paths: Arc<Paths>,
    /// About a column, not about the object.
    is_of_column: bool,
    signature: Signature,
}

impl std::fmt::Debug for OfComments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for OfComments {
    fn eq(&self, other: &OfComments) -> bool {
        self.is_of_column == other.is_of_column && Arc::ptr_eq(&self.paths, &other.paths)
    }
}

impl Eq for OfComments {}

impl Hash for OfComments {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_of_column.hash(state);
    }
}

impl OfComments {
    /// Both of them, for a session.
    pub fn udfs(host: &Arc<dyn Host>, paths: &Arc<Paths>) -> [ScalarUDF; 2] {
        [false, true].map(|is_of_column| {
            let signature = Signature::user_defined(Volatility::Stable);
            let (host, paths) = (Arc::clone(host), Arc::clone(paths));
            ScalarUDF::new_from_impl(OfComments { host, paths, is_of_column, signature })
        })
    }

    /// The key of what a text names.
    fn key(&self, catalog: &Catalog, text: &str) -> Option<String> {
        let reference = TableReference::parse_str(text);
        let own = reference.table();
        match reference.schema() {
            Some(schema) => Some(name::key_of(self.paths.schema(schema), own)),
            None => {
                let schemas = self.paths.schemas(catalog, true).into_iter();
                let mut keys = schemas.map(|schema| name::key_of(&schema, own));
                keys.find(|key| catalog.kind_of(key).is_some())
            }
        }
    }

    fn of_object(&self, catalog: &Catalog, text: &str, of: Option<&str>) -> Option<String> {
        if of == Some(SCHEMAS) {
            return catalog.table(&name::schema_key(text))?.comments.own.clone();
        }
        let key = self.key(catalog, text)?;
        match catalog.index(&key) {
            Some((table, _)) => table.comments.indexes.get(name::parts(&key).1).cloned(),
            None => catalog.table(&key)?.comments.own.clone(),
        }
    }

    fn of_column(&self, catalog: &Catalog, text: &str, number: i64) -> Option<String> {
        let table = catalog.table(&self.key(catalog, text)?)?;
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        let schema = checked_schema(&table.schema).ok()?;
        table.comments.columns.get(schema.fields().get(at)?.name()).cloned()
    }
}

impl ScalarUDFImpl for OfComments {
    fn name(&self) -> &'static str {
        if self.is_of_column { "col_description" } else { "obj_description" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.is_of_column, types.len()) {
            (false, 1) => Ok(vec![DataType::Utf8]),
            (false, 2) => Ok(vec![DataType::Utf8, DataType::Utf8]),
            (true, 2) => Ok(vec![DataType::Utf8, DataType::Int64]),
            (_, count) => plan_err!("{} does not take {count} arguments", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let catalog = self.host.rows().and_then(|rows| rows.catalog().ok()).unwrap_or_default();
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let text = |at: usize| {
            if arrays.iter().any(|array| array.is_null(at)) {
                return None;
            }
            let own = arrays.first()?.as_string::<i32>().value(at);
            let second = arrays.get(1);
            match self.is_of_column {
                true => {
                    let number = second?.as_primitive::<Int64Type>().value(at);
                    self.of_column(&catalog, own, number)
                }
                false => {
                    let of = second.map(|of| of.as_string::<i32>().value(at));
                    self.of_object(&catalog, own, of)
                }
            }
        };
        let texts: StringArray = (0..args.number_rows).map(text).collect();
        Ok(ColumnarValue::Array(Arc::new(texts)))
    }
}
