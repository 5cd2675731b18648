//! Compilation of a statement's expressions: to those that DataFusion would compute, over the columns and values
//! of a plan.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitorMut};

use super::class::is_now;
use super::names::{NOW, Names};
use super::shape::placeholder;
use crate::rows::parsed_as;
use crate::walk;

/// Turns placeholders and the time into column names.
struct Named;

impl VisitorMut for Named {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let name = match placeholder(expr) {
            Some(name) => name.to_owned(),
            None if is_now(expr) => NOW.to_owned(),
            None => return ControlFlow::Continue(()),
        };
        *expr = Expr::Identifier(Ident::with_quote('"', name));
        ControlFlow::Continue(())
    }
}

impl Names<'_> {
    /// A compiled expression, cast to `stored_as` for a column of that type. `None`: it is not computed here.
    pub fn compiled(
        &self,
        expr: &Expr,
        stored_as: Option<&DataType>,
    ) -> Option<Arc<dyn PhysicalExpr>> {
        let fits = match stored_as {
            Some(data_type) => self.is_storable(expr, data_type),
            None => self.class(expr).is_some() || self.column(super::shape::bare(expr)).is_some(),
        };
        if !fits {
            return None;
        }
        let mut expr = expr.clone();
        let _: ControlFlow<()> = walk::visit(&mut expr, &mut Named);
        let made = parsed_as(self.state, expr, &self.schema, stored_as).ok()?;
        self.state.create_physical_expr(made, &self.schema).ok()
    }
}
