//! Constants beside columns of uuid: the fast path compares stored texts, so they must be in the stored form.

use std::ops::ControlFlow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{Expr, Value, Visit, Visitor};

use super::names::{EXCLUDED, Slots, column};
use super::shape::{Shape, ShapeOf, bare, placeholder};
use crate::columnar::table::form_of;
use crate::json::form::Form;
use crate::names::folded;
use crate::rows::RowColumns;
use crate::walk;

/// The slots of the values that a statement compares with columns of uuid; `None`: it compares such a column with
/// something else, which is left to the common path.
pub(super) fn slots(shape: &Shape, columns: &RowColumns, slots: &Slots) -> Option<Vec<usize>> {
    let is_uuid = |field: &arrow::datatypes::FieldRef| form_of(field) == Some(Form::Uuid);
    if !columns.schema.fields().iter().any(is_uuid) {
        return Some(Vec::new());
    }
    let mut beside = Beside { columns, alias: folded(&shape.alias), slots, found: Vec::new() };
    let mut all: Vec<ControlFlow<()>> = Vec::new();
    all.push(beside.in_part(&shape.selection));
    all.push(beside.in_part(&shape.items));
    match &shape.work {
        ShapeOf::Select { order, .. } => all.push(beside.in_part(order)),
        ShapeOf::Insert { on, .. } => all.extend(on.iter().map(|on| beside.in_part(on.as_ref()))),
        ShapeOf::Update { assignments } => all.push(beside.in_part(assignments)),
        ShapeOf::Delete => {}
    }
    all.iter().all(|part| part.is_continue()).then_some(beside.found)
}

/// Whether values, or the items of lists, are NULL or in the stored form.
pub(super) fn are_kept(values: &ArrayRef) -> bool {
    if let Some(lists) = values.as_list_opt::<i32>() {
        return are_kept(lists.values());
    }
    match values.as_string_opt::<i32>() {
        Some(texts) => texts.iter().flatten().all(|text| matches!(Form::Uuid.kept(text), Ok(None))),
        None => *values.data_type() == DataType::Null || values.null_count() == values.len(),
    }
}

struct Beside<'a> {
    columns: &'a RowColumns,
    alias: String,
    slots: &'a Slots,
    found: Vec<usize>,
}

/// What an expression is beside a column of uuid.
enum Side {
    /// Such a column; whether it has arrays.
    Column {
        has_arrays: bool,
    },
    Slot(usize),
    Null,
    Other,
}

impl Beside<'_> {
    fn in_part(&mut self, part: &impl Visit) -> ControlFlow<()> {
        walk::look(part, self)
    }

    fn side(&self, expr: &Expr) -> Side {
        let expr = bare(expr);
        let at = column(self.columns, &self.alias, expr);
        let at = at.or_else(|| column(self.columns, EXCLUDED, expr));
        if let Some(at) = at {
            let field = self.columns.schema.field(at);
            return match form_of(field) {
                Some(Form::Uuid) => {
                    Side::Column { has_arrays: matches!(field.data_type(), DataType::List(_)) }
                }
                _ => Side::Other,
            };
        }
        if let Expr::Value(value) = expr
            && value.value == Value::Null
        {
            return Side::Null;
        }
        match placeholder(expr).and_then(|name| self.slots.position(name)) {
            Some(at) => Side::Slot(at),
            None => Side::Other,
        }
    }

    /// Two sides of a comparison.
    fn both(&mut self, one: &Expr, other: &Expr) -> ControlFlow<()> {
        match (self.side(one), self.side(other)) {
            (Side::Column { has_arrays: true }, _) | (_, Side::Column { has_arrays: true }) => {
                ControlFlow::Break(())
            }
            (Side::Column { .. }, Side::Slot(at)) | (Side::Slot(at), Side::Column { .. }) => {
                self.found.push(at);
                ControlFlow::Continue(())
            }
            (Side::Column { .. }, Side::Other) | (Side::Other, Side::Column { .. }) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Beside<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right)
            | Expr::AnyOp { left, right, .. }
            | Expr::AllOp { left, right, .. } => self.both(left, right),
            Expr::Between { expr, low, high, .. } => {
                self.both(expr, low)?;
                self.both(expr, high)
            }
            Expr::InList { expr, list, .. } => list.iter().try_for_each(|own| self.both(expr, own)),
            Expr::Case { operand: Some(operand), conditions, .. } => {
                conditions.iter().try_for_each(|when| self.both(operand, &when.condition))
            }
            // One of its arguments, or an array: other rules say what is beside it.
            Expr::Function(call)
                if super::calls::plain_args(call).is_some_and(|args| args.len() > 1) =>
            {
                let has_column =
                    walk::any_expr(&call.args, |own| matches!(self.side(own), Side::Column { .. }));
                if has_column { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
