//! Named windows, written out where they are used.
//!
//! DataFusion knows them only in the select list, and forgets the window that another one extends: `OVER
//! (w ORDER BY id)` had no partitions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, NamedWindowExpr, OrderByKind, Query, SetExpr, VisitorMut, WindowSpec, WindowType,
};

use crate::error::Error;
use crate::names::folded;
use crate::walk::visit;

/// Writes out the windows of a query's SELECT, also in what it is sorted by.
///
/// # Errors
/// 00900 for a name that is no window's.
pub(super) fn rewrite(query: &mut Query) -> Result<(), Error> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if select.named_window.is_empty() {
        return Ok(());
    }
    let mut windows = Windows::default();
    for definition in std::mem::take(&mut select.named_window) {
        let spec = match definition.1 {
            NamedWindowExpr::NamedWindow(other) => windows.named(&folded(&other))?,
            NamedWindowExpr::WindowSpec(spec) => windows.whole(spec)?,
        };
        windows.known.insert(folded(&definition.0), spec);
    }
    let broken = match visit(select.as_mut(), &mut windows) {
        ControlFlow::Break(error) => Some(error),
        ControlFlow::Continue(()) => match query.order_by.as_mut().map(|order| &mut order.kind) {
            Some(OrderByKind::Expressions(order)) => visit(order, &mut windows).break_value(),
            _ => None,
        },
    };
    broken.map_or(Ok(()), |error| Err(*error))
}

/// Windows by name, none of which names another.
#[derive(Default)]
struct Windows {
    known: BTreeMap<String, WindowSpec>,
    /// How many queries within the place is in: they have windows of their own.
    depth: usize,
}

impl Windows {
    fn named(&self, name: &str) -> Result<WindowSpec, Error> {
        let known = self.known.get(name).cloned();
        known.ok_or_else(|| Error::syntax(format!("there is no window \"{name}\"")))
    }

    /// A window with what the one that it names says.
    fn whole(&self, own: WindowSpec) -> Result<WindowSpec, Error> {
        let Some(name) = &own.window_name else { return Ok(own) };
        let name = folded(name);
        let base = self.named(&name)?;
        let refused = match () {
            () if !own.partition_by.is_empty() => "PARTITION BY",
            () if !own.order_by.is_empty() && !base.order_by.is_empty() => "ORDER BY",
            () => "",
        };
        if !refused.is_empty() {
            let text = format!("{refused} of the window \"{name}\" cannot be said anew");
            return Err(Error::syntax(text));
        }
        Ok(WindowSpec {
            window_name: None,
            partition_by: base.partition_by,
            order_by: if own.order_by.is_empty() { base.order_by } else { own.order_by },
            window_frame: own.window_frame.or(base.window_frame),
        })
    }
}

impl VisitorMut for Windows {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<Error>> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<Error>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let spec = match function.over.take() {
            None => return ControlFlow::Continue(()),
            Some(WindowType::NamedWindow(name)) => self.named(&folded(&name)),
            Some(WindowType::WindowSpec(spec)) => self.whole(spec),
        };
        match spec {
            Ok(spec) => {
                function.over = Some(WindowType::WindowSpec(spec));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}
