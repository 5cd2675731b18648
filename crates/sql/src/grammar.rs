//! The grammar of statements: PostgreSQL's, with `#` allowed inside names, and with corrections of what
//! the parser gets wrong.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// The grammar.
#[derive(Debug)]
pub(crate) struct CellarDialect;

/// Forwards to PostgreSQL's dialect.
macro_rules! as_postgres {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            POSTGRES.$name()
        })*
    };
}

impl Dialect for CellarDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch) || ch == '#'
    }

    /// `a IS DISTINCT FROM b AND c` is two conditions; the parser takes `b AND c` for the right operand.
    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        _: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        let is_not = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
        if !is_not && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            return None;
        }
        let other = parser.parse_subexpr(self.prec_value(Precedence::Is));
        let both = |other| (Box::new(expr.clone()), Box::new(other));
        Some(other.map(both).map(|(one, other)| match is_not {
            true => Expr::IsNotDistinctFrom(one, other),
            false => Expr::IsDistinctFrom(one, other),
        }))
    }

    /// `SELECT 1, 'a' ON CONFLICT ..`: ON is not the column's alias.
    fn is_column_alias(&self, kw: &Keyword, _: &mut Parser) -> bool {
        *kw != Keyword::ON && !RESERVED_FOR_COLUMN_ALIAS.contains(kw)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_delimited_identifier_start(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRES.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        POSTGRES.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRES.prec_value(precedence)
    }

    as_postgres!(
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    );
}
