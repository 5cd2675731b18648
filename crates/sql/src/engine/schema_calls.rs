//! `current_schema` and `current_schemas` as functions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::host::Host;
use crate::names::path::Paths;

/// A function that reports the search path.
pub(super) struct OfPath {
    host: Arc<dyn Host>,
    paths: Arc<Paths>,
    /// All schemas, not the first alone.
    is_list: bool,
    signature: Signature,
}

impl std::fmt::Debug for OfPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for OfPath {
    fn eq(&self, other: &OfPath) -> bool {
        self.is_list == other.is_list && Arc::ptr_eq(&self.paths, &other.paths)
    }
}

impl Eq for OfPath {}

impl Hash for OfPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_list.hash(state);
    }
}

impl OfPath {
    /// Both of them, for a session.
    pub fn udfs(host: &Arc<dyn Host>, paths: &Arc<Paths>) -> [ScalarUDF; 2] {
        [false, true].map(|is_list| {
            let signature = Signature::user_defined(Volatility::Stable);
            let (host, paths) = (Arc::clone(host), Arc::clone(paths));
            ScalarUDF::new_from_impl(OfPath { host, paths, is_list, signature })
        })
    }

    fn schemas(&self, with_temporary: bool) -> Vec<String> {
        let catalog = self.host.rows().and_then(|rows| rows.catalog().ok()).unwrap_or_default();
        self.paths.schemas(&catalog, with_temporary)
    }
}

impl ScalarUDFImpl for OfPath {
    fn name(&self) -> &'static str {
        if self.is_list { "current_schemas" } else { "current_schema" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.is_list, types.len()) {
            (false, 0) => Ok(Vec::new()),
            (true, 1) => Ok(vec![DataType::Boolean]),
            (_, count) => plan_err!("{} does not take {count} arguments", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.is_list {
            false => DataType::Utf8,
            true => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !self.is_list {
            let first = self.schemas(false).into_iter().next();
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(first)));
        }
        let flags = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let flags = flags.collect::<Result<Vec<ArrayRef>>>()?;
        let mut lists = ListBuilder::new(StringBuilder::new());
        for at in 0..args.number_rows {
            match flags.first().map(|flags| flags.as_boolean()) {
                Some(flags) if arrow::array::Array::is_valid(flags, at) => {
                    let with_system = flags.value(at);
                    let mut schemas = self.schemas(with_system);
                    if with_system {
                        let is_first = schemas.first().is_some_and(|s| s == self.paths.temporary());
                        schemas.insert(usize::from(is_first), "pg_catalog".to_owned());
                    }
                    schemas.iter().for_each(|schema| lists.values().append_value(schema));
                    lists.append(true);
                }
                _ => lists.append(false),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}
