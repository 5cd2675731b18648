//! Window functions that count rows: `row_number`, `rank` and `dense_rank` return a bigint, `ntile` an
//! integer, as in PostgreSQL. DataFusion's are unsigned, which drivers are told as NUMERIC.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::{ntile, rank, row_number};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_plan::PhysicalExpr;

/// A function of DataFusion whose values get another type.
#[derive(Debug)]
pub(crate) struct Rank {
    of: Arc<WindowUDF>,
    gives: DataType,
}

impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.of == other.of
    }
}

impl Eq for Rank {}

impl Hash for Rank {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

impl Rank {
    /// All of them.
    pub(crate) fn udwfs() -> [WindowUDF; 4] {
        let bigint = [row_number::row_number_udwf(), rank::rank_udwf(), rank::dense_rank_udwf()];
        let [one, two, three] = bigint.map(|of| (of, DataType::Int64));
        [one, two, three, (ntile::ntile_udwf(), DataType::Int32)]
            .map(|(of, gives)| WindowUDF::new_from_impl(Rank { of, gives }))
    }
}

impl WindowUDFImpl for Rank {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.of.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let of = self.of.partition_evaluator_factory(args)?;
        Ok(Box::new(Evaluator { of, gives: self.gives.clone() }))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.of.simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.of.field(args)?;
        Ok(Arc::new(Field::clone(&field).with_data_type(self.gives.clone())))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.of.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.of.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        // None of these has a reverse function.
        match self.of.reverse_expr() {
            ReversedUDWF::Identical => ReversedUDWF::Identical,
            ReversedUDWF::NotSupported | ReversedUDWF::Reversed(_) => ReversedUDWF::NotSupported,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.of.inner().limit_effect(args)
    }
}

/// The values of such a function.
#[derive(Debug)]
struct Evaluator {
    of: Box<dyn PartitionEvaluator>,
    gives: DataType,
}

impl PartitionEvaluator for Evaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.of.memoize(state)
    }

    fn get_range(&self, at: usize, rows: usize) -> Result<Range<usize>> {
        self.of.get_range(at, rows)
    }

    fn is_causal(&self) -> bool {
        self.of.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.of.evaluate_all(values, rows)?, &self.gives)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.of.evaluate(values, range)?.cast_to(&self.gives)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.of.evaluate_all_with_rank(rows, ranks)?, &self.gives)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.of.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.of.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.of.include_rank()
    }
}
