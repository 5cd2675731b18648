//! A plan of the fast path: how rows are found, and what is done with them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cellar_format::rows::RowColumns as Builder;
use cellar_instance::catalog::{Catalog, Identity, Rights, Table};
use cellar_instance::heap::RowLock;
use cellar_instance::library::{Cursor, Library};
use datafusion::execution::context::SessionState;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Expr, Ident, LockClause, LockType, NonBlock,
    ObjectName, OnConflict, OnConflictAction, OrderByExpr, SelectItem, Value, Visitor,
    WildcardAdditionalOptions,
};

use super::access_path::{AccessPath, conjuncts};
use super::aggregate::{Aggregate, called};
use super::names::{Names, Slots, column};
use super::shape::{Shape, ShapeOf, bare};
use crate::names::folded;
use crate::rows::{Checks, OnUpdate, ROW_ID, RowColumns, default_expr};
use crate::walk::{any_expr, look};

/// A compiled expression.
pub(super) type Compiled = Arc<dyn PhysicalExpr>;

/// A plan.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The table as the catalog had it.
    table: Table,
    pub columns: Arc<RowColumns>,
    pub slots: Slots,
    /// The statement's counters.
    pub cursor: Arc<Cursor>,
    /// The schema of the rows returned, if any are.
    pub schema: Option<SchemaRef>,
    pub(super) work: Work,
    /// The slots of values that must be uuids in the stored form.
    pub(super) uuids: Vec<usize>,
}

/// What is done.
#[derive(Debug)]
pub(super) enum Work {
    Select(Box<Select>),
    Insert(Box<Insert>),
    /// UPDATE, or DELETE where nothing is set.
    Change(Box<Change>),
}

/// How rows are found.
#[derive(Debug)]
pub(super) struct Find {
    pub path: AccessPath,
    /// The conditions that the index does not answer.
    pub residual: Option<Compiled>,
    /// The columns read, ascending.
    pub needed: Vec<usize>,
    /// These, and the values if an expression has one.
    pub schema: SchemaRef,
    pub has_values: bool,
    /// Idle row readers.
    pub readers: Mutex<Vec<Builder>>,
}

/// How many rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Fixed(usize),
    Value(usize),
}

/// What rows are sorted by: a column of the result, or another expression.
#[derive(Debug)]
pub(super) enum By {
    Output(usize),
    Other(Compiled),
}

#[derive(Debug)]
pub(super) struct Select {
    pub find: Find,
    pub outputs: Vec<Compiled>,
    pub aggregates: Vec<Aggregate>,
    pub distinct: bool,
    pub order: Vec<(By, SortOptions)>,
    /// The index gives rows in the requested order; true: read backwards.
    pub in_order: Option<bool>,
    pub limit: Option<Limit>,
    pub offset: Option<Limit>,
    pub lock: Option<Locking>,
}

/// How the rows of a query are locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locking {
    pub how: RowLock,
    /// SKIP LOCKED.
    pub skips: bool,
}

impl Locking {
    fn of(clause: &LockClause) -> Locking {
        let how = RowLock {
            is_shared: clause.lock_type == LockType::Share,
            is_nowait: clause.nonblock == Some(NonBlock::Nowait),
        };
        Locking { how, skips: clause.nonblock == Some(NonBlock::SkipLocked) }
    }
}

/// What to do with rows whose key exists already.
#[derive(Debug)]
pub(super) struct OnKey {
    /// The index whose key it is; `None`: any of them.
    pub arbiter: Option<usize>,
    /// DO UPDATE; `None`: DO NOTHING.
    pub update: Option<Arc<OnUpdate>>,
}

/// Columns of rows that were changed.
#[derive(Debug)]
pub(super) struct Returned {
    pub outputs: Vec<Compiled>,
}

#[derive(Debug)]
pub(super) struct Insert {
    /// For each row the value of each column.
    pub rows: Vec<Vec<Compiled>>,
    /// The schema of the values alone.
    pub schema: SchemaRef,
    pub checks: Checks,
    pub on: Option<OnKey>,
    pub returned: Option<Returned>,
}

#[derive(Debug)]
pub(super) struct Change {
    pub find: Find,
    /// The columns that are set, and to what; `None`: rows are deleted.
    pub assigned: Option<(Vec<usize>, Vec<Compiled>)>,
    /// The schema of the row numbers and new values.
    pub schema: SchemaRef,
    pub checks: Checks,
    pub returned: Option<Returned>,
}

/// What a plan is made of.
#[derive(Clone)]
pub(crate) struct Parts {
    pub table: Table,
    pub columns: Arc<RowColumns>,
    pub shape: Arc<Shape>,
    pub slots: Slots,
    /// The statement without its constants.
    pub text: String,
    /// For a SELECT, the schema of its rows according to DataFusion.
    pub schema: Option<SchemaRef>,
}

impl Plan {
    /// A plan; `None`: the statement takes the common path.
    pub fn of(state: &SessionState, library: &Library, parts: Parts) -> Option<Plan> {
        let Parts { table, columns, shape, mut slots, text, schema } = parts;
        slots.has_now = asks_for_now(&shape, &columns);
        let uuids = super::uuids::slots(&shape, &columns, &slots)?;
        let planner = Planner { state, columns: &columns, shape: &shape, slots: &slots };
        let (work, schema) = match &shape.work {
            ShapeOf::Select { .. } => {
                let schema = schema?;
                (planner.select(&schema)?, Some(schema))
            }
            ShapeOf::Insert { columns, rows, on } => {
                planner.insert(columns, rows, on.as_deref())?
            }
            ShapeOf::Update { assignments } => {
                planner.change(Some(planner.assigned(assignments)?))?
            }
            ShapeOf::Delete => planner.change(None)?,
        };
        let cursor = library.load(&text);
        Some(Plan { table, columns, slots, cursor, schema, work, uuids })
    }

    /// Whether its table in the catalog is still the same.
    pub fn is_of(&self, catalog: &Catalog) -> bool {
        catalog.row_table(&self.table.name).is_some_and(|(table, _)| *table == self.table)
            && self.columns.has_types_of(catalog)
    }

    /// Whether it changes rows.
    pub fn changes(&self) -> bool {
        match &self.work {
            Work::Select(select) => select.lock.is_some(),
            Work::Insert(_) | Work::Change(_) => true,
        }
    }

    /// The rights it needs on the whole table.
    pub fn needs(&self) -> Rights {
        let reads = |reads: bool| if reads { Rights::SELECT } else { Rights::NONE };
        match &self.work {
            Work::Select(select) => match select.lock {
                Some(_) => Rights::SELECT.and(Rights::UPDATE),
                None => Rights::SELECT,
            },
            Work::Insert(insert) => {
                let updates = insert.on.as_ref().is_some_and(|on| on.update.is_some());
                let updates = if updates { Rights::UPDATE } else { Rights::NONE };
                let reads = reads(insert.on.is_some() || insert.returned.is_some());
                Rights::INSERT.and(updates).and(reads)
            }
            Work::Change(change) => match change.assigned {
                Some(_) => Rights::UPDATE.and(Rights::SELECT),
                None => Rights::DELETE.and(Rights::SELECT),
            },
        }
    }

    /// The index used, and what selects its keys, in words.
    pub fn index(&self) -> Option<(&str, String)> {
        let path = match &self.work {
            Work::Select(select) => &select.find.path,
            Work::Change(change) => &change.find.path,
            Work::Insert(_) => return None,
        };
        Some((&self.columns.rows.indexes[path.index].name, path.words.join(" and ")))
    }
}

/// Whether a statement, or a default that it uses, needs the time.
fn asks_for_now(shape: &Shape, columns: &RowColumns) -> bool {
    let is_now = |expr: &Expr| super::class::is_now(expr);
    let has = |expr: &Expr| any_expr(expr, is_now);
    match &shape.work {
        ShapeOf::Insert { rows, on, .. } => {
            let updates = on.iter().any(|on| match &on.action {
                OnConflictAction::DoUpdate(update) => {
                    let set = update.assignments.iter().map(|assignment| &assignment.value);
                    set.chain(&update.selection).any(has)
                }
                OnConflictAction::DoNothing => false,
            });
            let defaults = (0..columns.schema.fields().len())
                .filter_map(|at| default_expr(columns, at).ok())
                .any(|expr| has(&expr));
            updates || defaults || rows.iter().flatten().any(has)
        }
        ShapeOf::Update { assignments } => {
            assignments.iter().any(|assignment| has(&assignment.value))
                || shape.selection.as_ref().is_some_and(has)
        }
        _ => shape.selection.as_ref().is_some_and(has),
    }
}

/// A column of the result: its alias or column name, if any, and its expression.
struct Item {
    name: Option<String>,
    expr: Expr,
}

struct Planner<'a> {
    state: &'a SessionState,
    columns: &'a RowColumns,
    shape: &'a Shape,
    slots: &'a Slots,
}

impl Planner<'_> {
    /// The place of a column that is set.
    fn target(&self, name: &ObjectName) -> Option<usize> {
        let [part] = &name.0[..] else { return None };
        self.columns.column(&folded(part.as_ident()?)).ok()
    }

    /// Whether statements may set a column freely: not so for identity columns.
    fn is_free(&self, at: usize) -> bool {
        let mut owned = self.columns.rows.owned.iter();
        !owned.any(|owned| owned.column == at && owned.identity.is_some())
    }

    /// The assignments of SET, each column once.
    fn assigned(&self, assignments: &[Assignment]) -> Option<Vec<(usize, Expr)>> {
        let mut set: Vec<(usize, Expr)> = Vec::new();
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
            let at = self.target(name)?;
            self.is_free(at).then_some(())?;
            let value = self.or_default(at, &assignment.value)?;
            if set.iter().any(|(own, _)| *own == at) {
                return None;
            }
            set.push((at, value));
        }
        Some(set)
    }

    /// Whether an INSERT may give a column's value: not so for GENERATED ALWAYS.
    fn is_given(&self, at: usize) -> bool {
        let mut owned = self.columns.rows.owned.iter();
        !owned.any(|owned| owned.column == at && owned.identity == Some(Identity::Always))
    }

    /// A value; the default of the column where it is the word DEFAULT.
    fn or_default(&self, at: usize, value: &Expr) -> Option<Expr> {
        match value {
            Expr::Identifier(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
            {
                default_expr(self.columns, at).ok()
            }
            value => Some(value.clone()),
        }
    }

    /// Adds the columns that an expression names.
    fn note(&self, expr: &Expr, needed: &mut BTreeSet<usize>) {
        struct Columns<'a>(&'a RowColumns, String, &'a mut BTreeSet<usize>);
        impl Visitor for Columns<'_> {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                self.2.extend(column(self.0, &self.1, expr));
                ControlFlow::Continue(())
            }
        }
        let mut found = Columns(self.columns, folded(&self.shape.alias), needed);
        let _: ControlFlow<()> = look(expr, &mut found);
    }

    fn names(&self, needed: BTreeSet<usize>) -> Option<Names<'_>> {
        let needed = needed.into_iter().collect();
        Names::new(self.state, (self.columns, self.slots), &self.shape.alias, needed)
    }

    /// The columns of the result.
    fn items(&self) -> Option<Vec<Item>> {
        let mut found = Vec::new();
        for item in self.shape.items.iter().flatten() {
            match item {
                SelectItem::Wildcard(options)
                    if *options == WildcardAdditionalOptions::default() =>
                {
                    for field in self.columns.schema.fields() {
                        let name = Ident::with_quote('"', field.name());
                        let expr = Expr::Identifier(name);
                        found.push(Item { name: Some(field.name().clone()), expr });
                    }
                }
                SelectItem::UnnamedExpr(expr) => {
                    let name = match expr {
                        Expr::Identifier(name) => Some(folded(name)),
                        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
                        _ => None,
                    };
                    found.push(Item { name, expr: expr.clone() });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    found.push(Item { name: Some(folded(alias)), expr: expr.clone() });
                }
                _ => return None,
            }
        }
        Some(found)
    }

    /// How the rows of the WHERE are found. `more`: further expressions over them, to see what is needed.
    fn find(&self, names: &Names<'_>, more: &[Compiled]) -> Option<Find> {
        let selection = self.shape.selection.as_ref()?;
        let conditions = conjuncts(selection);
        let (path, answered) = AccessPath::of(names, &conditions)?;
        let left = conditions.iter().enumerate().filter(|(at, _)| !answered.contains(at));
        let left = left.map(|(_, condition)| (*condition).clone()).reduce(|one, other| {
            let op = datafusion::sql::sqlparser::ast::BinaryOperator::And;
            Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(one))),
                op,
                right: Box::new(Expr::Nested(Box::new(other))),
            }
        });
        let residual = match left {
            None => None,
            Some(left) => {
                let made = names.compiled(&left, None)?;
                (made.data_type(&names.plain).ok()? == DataType::Boolean).then_some(())?;
                Some(made)
            }
        };
        let count = names.needed.len();
        let uses_values =
            |made: &Compiled| collect_columns(made).iter().any(|own| own.index() >= count);
        let has_values = residual.iter().chain(more).any(uses_values);
        let fields = names.plain.fields();
        let fields = if has_values { fields.to_vec() } else { fields[..count].to_vec() };
        let schema = Arc::new(Schema::new(fields));
        let (needed, readers) = (names.needed.clone(), Mutex::default());
        Some(Find { path, residual, needed, schema, has_values, readers })
    }

    fn select(&self, schema: &SchemaRef) -> Option<Work> {
        let ShapeOf::Select { distinct, order, limit, offset, lock } = &self.shape.work else {
            return None;
        };
        let items = self.items()?;
        if items.len() != schema.fields().len() {
            return None;
        }
        let mut needed = BTreeSet::new();
        let exprs = items.iter().map(|item| &item.expr);
        let exprs = exprs.chain(order.iter().map(|by| &by.expr)).chain(&self.shape.selection);
        exprs.for_each(|expr| self.note(expr, &mut needed));
        let names = self.names(needed)?;
        let mut aggregates = Vec::new();
        let mut outputs = Vec::new();
        let types = schema.fields().iter().map(|field| field.data_type().clone());
        for (item, data_type) in items.iter().zip(types) {
            if let Some((made, of)) = called(&item.expr) {
                let of = match of {
                    None => None,
                    Some(of) => Some(self.argument(&names, of)?),
                };
                let aggregate = Aggregate { made, of, data_type };
                if let Some(of) = &aggregate.of {
                    aggregate.takes(&of.data_type(&names.plain).ok()?).then_some(())?;
                }
                aggregates.push(aggregate);
                continue;
            }
            let made = names.compiled(&item.expr, None)?;
            (made.data_type(&names.plain).ok()? == data_type).then_some(())?;
            let is_float = matches!(data_type, DataType::Float32 | DataType::Float64);
            (!*distinct || !is_float).then_some(())?;
            outputs.push(made);
        }
        let is_aggregate = !aggregates.is_empty();
        if is_aggregate && (!outputs.is_empty() || *distinct || !order.is_empty()) {
            return None;
        }
        let mut more = outputs.clone();
        more.extend(aggregates.iter().filter_map(|aggregate| aggregate.of.clone()));
        let mut by = Vec::new();
        for one in order {
            by.push(self.ordered(&names, &items, one, *distinct)?);
        }
        more.extend(by.iter().filter_map(|(by, _)| match by {
            By::Other(made) => Some(Arc::clone(made)),
            By::Output(_) => None,
        }));
        let find = self.find(&names, &more)?;
        let is_plain = !is_aggregate && !*distinct && find.residual.is_none();
        let in_order = is_plain.then(|| self.in_order(&names, &items, &find.path, order)).flatten();
        let (limit, offset) =
            (self.limit(&names, limit.as_deref())?, self.limit(&names, offset.as_deref())?);
        let (distinct, lock) = (*distinct, lock.as_ref().map(Locking::of));
        // Only the rows returned are locked, in the order in which they are returned.
        let is_part = limit.is_some() || offset.is_some();
        let is_apart = is_aggregate || (is_part && in_order.is_none() && !by.is_empty());
        if lock.is_some() && is_apart {
            return None;
        }
        Some(Work::Select(Box::new(Select {
            find,
            outputs,
            aggregates,
            distinct,
            order: by,
            in_order,
            limit,
            offset,
            lock,
        })))
    }

    /// The argument of an aggregate: not enum labels, whose least is not that of the texts.
    fn argument(&self, names: &Names<'_>, of: &Expr) -> Option<Compiled> {
        let column = names.column(bare(of));
        column.is_none_or(|at| !self.columns.has_own_order(at)).then_some(())?;
        names.compiled(of, None)
    }

    /// What an ORDER BY sorts by.
    fn ordered(
        &self,
        names: &Names<'_>,
        items: &[Item],
        by: &OrderByExpr,
        distinct: bool,
    ) -> Option<(By, SortOptions)> {
        let descending = by.options.asc == Some(false);
        let nulls_first = by.options.nulls_first.unwrap_or(descending);
        let options = SortOptions { descending, nulls_first };
        if by.with_fill.is_some() {
            return None;
        }
        let output = output_of(items, &by.expr)?;
        let own = output.map_or(&by.expr, |at| &items[at].expr);
        // Sorts would compare enum labels as texts.
        names.column(bare(own)).is_none_or(|at| !self.columns.has_own_order(at)).then_some(())?;
        if let Some(at) = output {
            return Some((By::Output(at), options));
        }
        let made = names.compiled(&by.expr, None)?;
        (!distinct).then_some((By::Other(made), options))
    }

    /// Whether the index gives the rows in the requested order; if so, whether backwards.
    fn in_order(
        &self,
        names: &Names<'_>,
        items: &[Item],
        path: &AccessPath,
        order: &[OrderByExpr],
    ) -> Option<bool> {
        if path.is_one(self.columns) {
            return Some(false);
        }
        if order.is_empty() {
            return Some(false);
        }
        if !path.is_one_range() {
            return None;
        }
        let index = &self.columns.rows.indexes[path.index].columns[path.equal..];
        if order.len() > index.len() {
            return None;
        }
        let mut backwards = None;
        for (by, column) in order.iter().zip(index) {
            let expr = match output_of(items, &by.expr)? {
                Some(at) => &items[at].expr,
                None => &by.expr,
            };
            let descending = by.options.asc == Some(false);
            let is_usual = by.options.nulls_first.is_none_or(|first| first == descending);
            let turned = descending != column.descending;
            if names.column(expr) != Some(column.column)
                || !is_usual
                || backwards.is_some_and(|own| own != turned)
            {
                return None;
            }
            backwards = Some(turned);
        }
        backwards
    }

    fn limit(&self, names: &Names<'_>, limit: Option<&Expr>) -> Option<Option<Limit>> {
        let Some(limit) = limit else { return Some(None) };
        let value = names.count(limit).map(Limit::Value);
        value.or_else(|| number(limit).map(Limit::Fixed)).map(Some)
    }

    fn insert(
        &self,
        named: &[ObjectName],
        rows: &[Vec<Expr>],
        on: Option<&OnConflict>,
    ) -> Option<(Work, Option<SchemaRef>)> {
        let count = self.columns.schema.fields().len();
        let places: Vec<usize> = match named.is_empty() {
            true => (0..count).collect(),
            false => named.iter().map(|name| self.target(name)).collect::<Option<_>>()?,
        };
        let is_twice = places.iter().collect::<BTreeSet<_>>().len() < places.len();
        let values = rows.first()?.len();
        let fits = match named.is_empty() {
            true => values <= count,
            false => values == places.len(),
        };
        if is_twice || !fits || rows.iter().any(|row| row.len() != values) {
            return None;
        }
        let mut names = self.names(BTreeSet::new())?;
        names.may_draw = true;
        let mut made = Vec::with_capacity(rows.len());
        for row in rows {
            let mut all = Vec::with_capacity(count);
            for at in 0..count {
                let place = places.iter().take(values).position(|own| *own == at);
                let expr = match place {
                    Some(place) if self.is_given(at) => self.or_default(at, &row[place])?,
                    Some(_) => return None,
                    None => default_expr(self.columns, at).ok()?,
                };
                all.push(self.stored(&names, at, &expr)?);
            }
            made.push(all);
        }
        let checks = Checks::of(self.state, self.columns).ok()?;
        let (returned, shown) = self.returned()?;
        let schema = Arc::clone(&names.plain);
        let on = match on {
            None => None,
            Some(on) => Some(self.on_key(on)?),
        };
        Some((Work::Insert(Box::new(Insert { rows: made, schema, checks, on, returned })), shown))
    }

    /// What to do with rows whose key exists already.
    fn on_key(&self, on: &OnConflict) -> Option<OnKey> {
        let arbiter = match &on.conflict_target {
            None => None,
            Some(target) => Some(self.arbiter(target)?),
        };
        let OnConflictAction::DoUpdate(update) = &on.action else {
            return Some(OnKey { arbiter, update: None });
        };
        arbiter?;
        let names = Names::of_conflict(self.state, (self.columns, self.slots), &self.shape.alias)?;
        let mut values = Vec::new();
        for (at, expr) in self.assigned(&update.assignments)? {
            values.push((at, self.stored(&names, at, &expr)?));
        }
        let condition = match &update.selection {
            None => None,
            Some(condition) => {
                let made = names.compiled(condition, None)?;
                (made.data_type(&names.plain).ok()? == DataType::Boolean).then_some(())?;
                Some(made)
            }
        };
        let update = OnUpdate::made(Arc::clone(&names.plain), values, condition);
        Some(OnKey { arbiter, update: Some(Arc::new(update)) })
    }

    /// The unique index that ON CONFLICT refers to.
    fn arbiter(&self, target: &ConflictTarget) -> Option<usize> {
        let ConflictTarget::Columns(names) = target else { return None };
        let place = |name: &Ident| self.columns.column(&folded(name)).ok();
        let wanted = names.iter().map(place).collect::<Option<BTreeSet<usize>>>()?;
        self.columns.rows.indexes.iter().position(|index| {
            let own: BTreeSet<usize> = index.columns.iter().map(|own| own.column).collect();
            index.is_unique && own == wanted
        })
    }

    /// A value of a column.
    fn stored(&self, names: &Names<'_>, at: usize, expr: &Expr) -> Option<Compiled> {
        let data_type = self.columns.schema.field(at).data_type();
        let made = names.compiled(expr, Some(data_type))?;
        (made.data_type(&names.plain).ok()? == *data_type).then_some(made)
    }

    fn change(&self, set: Option<Vec<(usize, Expr)>>) -> Option<(Work, Option<SchemaRef>)> {
        let mut needed = BTreeSet::new();
        let exprs = set.iter().flatten().map(|(_, expr)| expr).chain(&self.shape.selection);
        exprs.for_each(|expr| self.note(expr, &mut needed));
        let names = self.names(needed)?;
        let mut fields = vec![Field::new(ROW_ID, DataType::UInt64, false)];
        let assigned = match set {
            None => None,
            Some(set) => {
                let (mut columns, mut values) = (Vec::new(), Vec::new());
                for (at, expr) in &set {
                    values.push(self.stored(&names, *at, expr)?);
                    columns.push(*at);
                    let data_type = self.columns.schema.field(*at).data_type().clone();
                    fields.push(Field::new(format!("{at}"), data_type, true));
                }
                Some((columns, values))
            }
        };
        let more: &[Compiled] = assigned.as_ref().map_or(&[], |(_, values)| values);
        let find = self.find(&names, more)?;
        let checks = Checks::of(self.state, self.columns).ok()?;
        let (returned, shown) = self.returned()?;
        let schema = Arc::new(Schema::new(fields));
        let change = Change { find, assigned, schema, checks, returned };
        Some((Work::Change(Box::new(change)), shown))
    }

    /// What RETURNING asks for, and its rows.
    fn returned(&self) -> Option<(Option<Returned>, Option<SchemaRef>)> {
        if self.shape.items.is_none() {
            return Some((None, None));
        }
        let all = (0..self.columns.schema.fields().len()).collect();
        let names = self.names(all)?;
        let (mut outputs, mut fields) = (Vec::new(), Vec::new());
        for item in self.items()? {
            let made = names.compiled(&item.expr, None)?;
            let count = names.needed.len();
            if collect_columns(&made).iter().any(|own| own.index() >= count) {
                return None;
            }
            let field = Field::new(item.name?, made.data_type(&names.plain).ok()?, true);
            let of = names.column(bare(&item.expr)).map(|at| names.plain.field(at).metadata());
            fields.push(field.with_metadata(of.cloned().unwrap_or_default()));
            outputs.push(made);
        }
        Some((Some(Returned { outputs }), Some(Arc::new(Schema::new(fields)))))
    }
}

/// The column of the result that an ORDER BY refers to, by number, name or expression. `None`: no such number.
#[expect(clippy::option_option, reason = "no column, or none that there is")]
fn output_of(items: &[Item], by: &Expr) -> Option<Option<usize>> {
    match by {
        Expr::Value(_) => {
            let at = number(by)?.checked_sub(1)?;
            (at < items.len()).then_some(Some(at))
        }
        Expr::Identifier(name) => {
            let name = folded(name);
            Some(items.iter().position(|item| item.name.as_ref() == Some(&name)))
        }
        other => Some(items.iter().position(|item| bare(&item.expr) == bare(other))),
    }
}

/// A number literal.
fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
