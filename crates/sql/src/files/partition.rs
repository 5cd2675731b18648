//! Values by which `COPY .. PARTITIONED BY` divides rows among directories.
//!
//! DataFusion 55 does not check for nulls: a row with a null went into the directory of another row's
//! value.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::error::Error;
use crate::files::csv_format::external;
use crate::rules::unbounded;

/// A plan that copies into directories by values, and fails on a row with a null.
pub(crate) fn with_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Copy(copy) = plan else { return Ok(plan) };
    if copy.partition_by.is_empty() {
        return Ok(LogicalPlan::Copy(copy));
    }
    let columns = copy.input.schema().columns().into_iter().map(|column| {
        let name = column.name.clone();
        match copy.partition_by.contains(&name) {
            true => checked(Expr::Column(column), &name),
            false => Expr::Column(column),
        }
    });
    let columns = columns.collect::<Vec<_>>();
    let input = LogicalPlanBuilder::from(Arc::clone(&copy.input)).project(columns)?.build()?;
    Ok(LogicalPlan::Copy(CopyTo::new(
        Arc::new(input),
        copy.output_url,
        copy.partition_by,
        copy.file_type,
        copy.options,
    )))
}

fn checked(column: Expr, name: &str) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = PartitionValue { column: name.to_owned(), signature };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![column])).alias(name)
}

/// The function that refuses null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PartitionValue {
    column: String,
    signature: Signature,
}

impl ScalarUDFImpl for PartitionValue {
    fn name(&self) -> &'static str {
        "partition_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        match array.logical_null_count() {
            0 => Ok(ColumnarValue::Array(array)),
            _ => {
                let column = &self.column;
                let text = format!("a row has no \"{column}\", by which the files are divided");
                let next = format!(
                    "leave such rows out, where {column} is not null, or give them a value"
                );
                Err(external(Error::new(1400, "23502", text).next(next)))
            }
        }
    }
}
