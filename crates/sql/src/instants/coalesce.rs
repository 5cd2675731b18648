//! The function `coalesce` with a date or time and a text among its arguments: the text is read as a
//! date or time. DataFusion's own refuses that; all other calls are left to it.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::rules::unbounded;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coalesce {
    others: Arc<ScalarUDF>,
}

impl Coalesce {
    /// The function, to be registered in place of DataFusion's.
    pub(crate) fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Coalesce { others: datafusion::functions::core::coalesce() })
    }
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.others.name()
    }

    fn signature(&self) -> &Signature {
        self.others.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.others.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.others.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let mut others = types.iter().filter(|own| !own.is_null() && !own.is_string());
        let has_text = types.iter().any(DataType::is_string);
        match others.next() {
            Some(first) if has_text && first.is_temporal() && others.all(|own| own == first) => {
                Ok(vec![first.clone(); types.len()])
            }
            _ => self.others.coerce_types(types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.others.simplify(args, info)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.others.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.others.short_circuits()
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.others.invoke_with_args(args)
    }
}
