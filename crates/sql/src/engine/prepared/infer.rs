//! The types of parameters, by what they are compared with, computed with or stored in.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, Assignment, AssignmentTarget, BinaryOperator, DataType as SqlType, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, OnConflictAction,
    Statement as SqlStatement, Value, Visitor,
};

use crate::binary::{PgType, types};
use crate::dialect::form_of;
use crate::engine::Engine;
use crate::error::Error;
use crate::fast::{Place, Shape, ShapeOf};
use crate::json::form::Form;
use crate::names::folded;
use crate::rows::RowColumns;
use crate::walk;

/// The most parameters: PostgreSQL counts them with 16 bits; more than these no text has.
const PARAMETERS_MAX: usize = 9_999;

/// What is known of the types of parameters.
pub(super) struct Inferred {
    types: Vec<Option<DataType>>,
}

impl Inferred {
    pub fn new(types: &[Option<DataType>]) -> Inferred {
        Inferred { types: types.to_vec() }
    }

    /// Notes the type of a parameter, if none is known yet.
    pub fn note(&mut self, name: &str, data_type: &DataType) {
        if let Some(Place::Parameter(at)) = Place::of(name) {
            if self.types.len() <= at {
                self.types.resize(at + 1, None);
            }
            self.types[at].get_or_insert_with(|| data_type.clone());
        }
    }

    /// Whether any of the first `count` types is unknown.
    pub fn lacks(&self, count: usize) -> bool {
        (0..count).any(|at| self.types.get(at).is_none_or(Option::is_none))
    }

    /// The types of `count` parameters, for values and as reported to clients; unknown ones are text.
    pub fn finish(mut self, count: usize) -> ParameterTypes {
        self.types.resize(count.max(self.types.len()), None);
        let types = self.types.into_iter().map(|own| own.unwrap_or(DataType::Utf8));
        let told = types.map(|own| match &own {
            own if *own == UUID => (DataType::Utf8, types::UUID),
            DataType::List(item) if *item.data_type() == UUID => {
                (DataType::new_list(DataType::Utf8, true), types::UUIDS)
            }
            _ => {
                let oid = PgType::of(&own).oid;
                (own, oid)
            }
        });
        let (types, oids) = told.unzip();
        ParameterTypes { types, oids }
    }
}

/// The types of all parameters of a statement.
pub(super) struct ParameterTypes {
    pub types: Vec<DataType>,
    pub oids: Vec<u32>,
}

/// What stands for uuid, whose values are kept as texts.
const UUID: DataType = DataType::FixedSizeBinary(16);

/// The type of a parameter that is declared as one whose values are kept as texts.
pub(super) fn of_texts(own: &SqlType) -> Option<DataType> {
    if let SqlType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = own {
        return Some(DataType::new_list(of_texts(item)?, true));
    }
    Some(match form_of(own)? {
        Form::Uuid => UUID,
        Form::Json | Form::Jsonb => DataType::Utf8,
    })
}

/// The type of a column, as a parameter is to have it.
fn type_of(field: &Field) -> DataType {
    match PgType::of_field(field).oid {
        types::UUID => UUID,
        types::UUIDS => DataType::new_list(UUID, true),
        _ => field.data_type().clone(),
    }
}

/// Notes the types of parameters that are cast: `$1::int[]` is an array of integers.
pub(super) fn by_casts(statement: &SqlStatement, found: &mut Inferred) {
    struct Casts<'a>(&'a mut Inferred);
    impl Visitor for Casts<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Cast { expr, data_type, .. } => {
                    if let (Some(name), Some(data_type)) =
                        (placeholder(expr), arrow_type(data_type))
                    {
                        self.0.note(name, &data_type);
                    }
                }
                Expr::Function(call) => {
                    if let Some(name) = kept_as_uuid(call) {
                        self.0.note(name, &UUID);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = walk::look(statement, &mut Casts(found));
}

/// The parameters that are compared with columns.
fn beside_columns(statement: &SqlStatement) -> BTreeSet<String> {
    struct Beside(BTreeSet<String>);
    impl Beside {
        fn one(&mut self, column: &Expr, own: &Expr) {
            if let (Expr::Identifier(_) | Expr::CompoundIdentifier(_), Some(name)) =
                (column, placeholder(own))
            {
                self.0.insert(name.to_owned());
            }
        }
    }
    impl Visitor for Beside {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::BinaryOp { left, right, .. } => {
                    self.one(left, right);
                    self.one(right, left);
                }
                Expr::InList { expr, list, .. } => list.iter().for_each(|own| self.one(expr, own)),
                Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
                    self.one(left, right);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut beside = Beside(BTreeSet::new());
    let _: ControlFlow<()> = walk::look(statement, &mut beside);
    beside.0
}

/// Notes that the argument of ANY is an array: of texts, if nothing else is known.
pub(super) fn by_any(statement: &SqlStatement, found: &mut Inferred) {
    struct Lists<'a>(&'a mut Inferred);
    impl Visitor for Lists<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr
                && let Some(name) = placeholder(right)
            {
                self.0.note(name, &DataType::new_list(DataType::Utf8, true));
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = walk::look(statement, &mut Lists(found));
}

/// The type of an operand, where the text shows it: of an integer, or of what `->>` and its kin return.
fn shown_type(expr: &Expr) -> Option<DataType> {
    match expr {
        Expr::Nested(inner) => shown_type(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if digits.parse::<i32>().is_ok() => Some(DataType::Int32),
            Value::Number(digits, _) if digits.parse::<i64>().is_ok() => Some(DataType::Int64),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
            shown_type(left).or_else(|| shown_type(right))
        }
        Expr::BinaryOp {
            op:
                BinaryOperator::LongArrow
                | BinaryOperator::HashLongArrow
                | BinaryOperator::Arrow
                | BinaryOperator::HashArrow,
            ..
        } => Some(DataType::Utf8),
        _ => None,
    }
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
    )
}

fn is_of_json(own: &DataType) -> bool {
    *own == DataType::Utf8
}

/// Notes the types of parameters by what stands beside them: an integer to compute with, a member of JSON to compare
/// with.
pub(super) fn by_neighbours(statement: &SqlStatement, found: &mut Inferred) {
    struct Neighbours<'a>(&'a mut Inferred);
    impl Neighbours<'_> {
        fn one(&mut self, shown: &Expr, own: &Expr, fits: impl Fn(&DataType) -> bool) {
            let own = unnested(own);
            if let (Some(name), Some(data_type)) = (placeholder(own), shown_type(shown))
                && fits(&data_type)
            {
                self.0.note(name, &data_type);
            }
        }
    }
    impl Visitor for Neighbours<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                    self.one(left, right, DataType::is_integer);
                    self.one(right, left, DataType::is_integer);
                }
                Expr::BinaryOp { left, right, .. } => {
                    self.one(left, right, is_of_json);
                    self.one(right, left, is_of_json);
                }
                Expr::InList { expr, list, .. } => {
                    list.iter().for_each(|own| self.one(expr, own, is_of_json));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = walk::look(statement, &mut Neighbours(found));
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// The parameter of `$1::uuid`, as it is written by then.
fn kept_as_uuid(call: &Function) -> Option<&str> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(own))] = &list.args[..] else { return None };
    placeholder(own).filter(|_| call.name.to_string() == "uuid_in")
}

/// Whether a type is that of the catalogs' numbers.
fn is_oid(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|own| own.value.eq_ignore_ascii_case("oid"))
}

/// The Arrow type of a type as written; `None`: the plan determines it.
fn arrow_type(own: &SqlType) -> Option<DataType> {
    Some(match own {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::SmallInt(None) | SqlType::Int2(None) => DataType::Int16,
        SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None) => DataType::Int32,
        SqlType::BigInt(None) | SqlType::Int8(None) => DataType::Int64,
        SqlType::Real | SqlType::Float4 => DataType::Float32,
        SqlType::DoublePrecision | SqlType::Float8 => DataType::Float64,
        SqlType::Text | SqlType::Varchar(None) => DataType::Utf8,
        SqlType::Date => DataType::Date32,
        SqlType::Custom(name, _) if is_oid(name) => DataType::UInt32,
        // How an OID is written by this stage.
        SqlType::IntegerUnsigned(None) => DataType::UInt32,
        SqlType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => {
            DataType::List(Arc::new(Field::new_list_field(arrow_type(item)?, true)))
        }
        _ => return None,
    })
}

/// How many parameters a statement has.
pub(super) fn count(statement: &SqlStatement) -> Result<usize, Error> {
    struct Most(usize, bool);
    impl Visitor for Most {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Some(name) = placeholder(expr) {
                match Place::of(name) {
                    Some(Place::Parameter(at)) => self.0 = self.0.max(at + 1),
                    _ => self.1 = true,
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut most = Most(0, false);
    let _: ControlFlow<()> = walk::look(statement, &mut most);
    match most.1 {
        false => Ok(most.0),
        true => Err(Error::new(1745, "42P02", "a parameter has no number that there is")
            .next(format!("number them from $1 to ${PARAMETERS_MAX}"))),
    }
}

fn placeholder(expr: &Expr) -> Option<&str> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::Placeholder(name) => Some(name),
        _ => None,
    }
}

/// Expressions over a table.
struct Over<'a> {
    columns: &'a RowColumns,
    found: &'a mut Inferred,
}

impl Over<'_> {
    /// The type of an expression, if it can be told; parameters get the `expected` type.
    fn visit(&mut self, expr: &Expr, expected: Option<&DataType>) -> Option<DataType> {
        if let Some(name) = placeholder(expr) {
            if let Some(expected) = expected {
                self.found.note(name, expected);
            }
            return None;
        }
        match expr {
            Expr::Nested(inner) => self.visit(inner, expected),
            Expr::UnaryOp { expr, .. } => self.visit(expr, expected),
            Expr::Identifier(name) => self.column(&folded(name)),
            Expr::CompoundIdentifier(parts) => self.column(&folded(parts.last()?)),
            Expr::Between { expr, low, high, .. } => {
                let own = self.both(expr, low, None);
                self.both(expr, high, own.as_ref());
                Some(DataType::Boolean)
            }
            Expr::InList { expr, list, .. } => {
                let own = self.visit(expr, None);
                list.iter().for_each(|item| drop(self.visit(item, own.as_ref())));
                Some(DataType::Boolean)
            }
            Expr::AnyOp { left, right, .. } => {
                let own = self.visit(left, None)?;
                let list = DataType::List(Arc::new(Field::new_list_field(own, true)));
                self.visit(right, Some(&list));
                Some(DataType::Boolean)
            }
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or => {
                    self.visit(left, Some(&DataType::Boolean));
                    self.visit(right, Some(&DataType::Boolean));
                    Some(DataType::Boolean)
                }
                BinaryOperator::StringConcat => {
                    self.visit(left, Some(&DataType::Utf8));
                    self.visit(right, Some(&DataType::Utf8));
                    Some(DataType::Utf8)
                }
                BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo => self.both(left, right, expected),
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq => {
                    self.both(left, right, None);
                    Some(DataType::Boolean)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Two expressions of one type.
    fn both(&mut self, left: &Expr, right: &Expr, expected: Option<&DataType>) -> Option<DataType> {
        let own = self.visit(left, None).or_else(|| self.visit(right, None));
        let own = own.or_else(|| expected.cloned());
        self.visit(left, own.as_ref());
        self.visit(right, own.as_ref());
        own
    }

    fn column(&self, name: &str) -> Option<DataType> {
        let at = self.columns.column(name).ok()?;
        Some(type_of(self.columns.schema.field(at)))
    }

    /// What SET says.
    fn assigned(&mut self, assignments: &[Assignment]) {
        for assignment in assignments {
            if let AssignmentTarget::ColumnName(name) = &assignment.target
                && let Some(name) = name.0.last().and_then(|part| part.as_ident())
                && let Ok(at) = self.columns.column(&folded(name))
            {
                self.stored(at, &assignment.value);
            }
        }
    }

    fn stored(&mut self, at: usize, expr: &Expr) {
        let data_type = type_of(self.columns.schema.field(at));
        self.visit(expr, Some(&data_type));
    }
}

impl Engine {
    /// The types of parameters as DataFusion finds them out.
    pub(super) async fn infer_by_plan(&self, statement: &SqlStatement, found: &mut Inferred) {
        let parsed = DfStatement::Statement(Box::new(statement.clone()));
        let Ok(plan) = self.state().statement_to_plan(parsed).await else { return };
        let Ok(fields) = plan.get_parameter_fields() else { return };
        let columns = beside_columns(statement);
        for (name, field) in fields {
            let Some(field) = field else { continue };
            // A cast of a column says the same of its texts as the column does.
            match columns.contains(&name) {
                true => found.note(&name, &type_of(&field)),
                false => found.note(&name, field.data_type()),
            }
        }
    }

    /// The types of parameters of a statement over one table in the heap.
    pub(super) fn infer_by_shape(&self, statement: &SqlStatement, found: &mut Inferred) {
        let Some(shape) = Shape::of(statement.clone()) else { return };
        let reference = TableReference::parse_str(&shape.table.to_string());
        let Ok(Some(columns)) = self.row_table(&reference) else { return };
        let mut over = Over { columns: &columns, found };
        if let Some(selection) = &shape.selection {
            over.visit(selection, Some(&DataType::Boolean));
        }
        let place = |name: &datafusion::sql::sqlparser::ast::ObjectName| {
            columns.column(&folded(name.0.last()?.as_ident()?)).ok()
        };
        match &shape.work {
            ShapeOf::Select { limit, offset, .. } => {
                for expr in limit.iter().chain(offset) {
                    over.visit(expr.as_ref(), Some(&DataType::Int64));
                }
            }
            ShapeOf::Insert { columns: named, rows, on } => {
                if let Some(OnConflictAction::DoUpdate(update)) = on.as_ref().map(|on| &on.action) {
                    over.assigned(&update.assignments);
                    if let Some(condition) = &update.selection {
                        over.visit(condition, Some(&DataType::Boolean));
                    }
                }
                for row in rows {
                    for (position, expr) in row.iter().enumerate() {
                        let at = match named.is_empty() {
                            true => Some(position),
                            false => named.get(position).and_then(place),
                        };
                        let count = columns.schema.fields().len();
                        if let Some(at) = at.filter(|at| *at < count) {
                            over.stored(at, expr);
                        }
                    }
                }
            }
            ShapeOf::Update { assignments } => {
                over.assigned(assignments);
            }
            ShapeOf::Delete => {}
        }
    }
}
