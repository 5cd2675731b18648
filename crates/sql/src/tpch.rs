//! TPC-H's rows, from their generator, as Arrow batches with the types a database would choose.

use std::fmt::{Display, Write};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, Nation, NationGenerator, Order,
    OrderGenerator, Part, PartGenerator, PartSupp, PartSuppGenerator, Region, RegionGenerator,
    Supplier, SupplierGenerator,
};

/// Rows in a batch.
const BATCH_ROWS: usize = 8192;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are TPC-H's")]
pub enum TpchTable {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    Partsupp,
    Orders,
    Lineitem,
}

/// Batches of a part of a table.
pub type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

impl TpchTable {
    /// All of them, small ones first.
    pub const ALL: [TpchTable; 8] = [
        TpchTable::Region,
        TpchTable::Nation,
        TpchTable::Supplier,
        TpchTable::Customer,
        TpchTable::Part,
        TpchTable::Partsupp,
        TpchTable::Orders,
        TpchTable::Lineitem,
    ];

    /// Its name, lower-case.
    pub fn name(self) -> &'static str {
        match self {
            TpchTable::Region => "region",
            TpchTable::Nation => "nation",
            TpchTable::Supplier => "supplier",
            TpchTable::Customer => "customer",
            TpchTable::Part => "part",
            TpchTable::Partsupp => "partsupp",
            TpchTable::Orders => "orders",
            TpchTable::Lineitem => "lineitem",
        }
    }

    /// The number of rows at scale 1; for lineitem, which is random, approximately.
    pub fn rows_at_scale_1(self) -> u64 {
        match self {
            TpchTable::Region => 5,
            TpchTable::Nation => 25,
            TpchTable::Supplier => 10_000,
            TpchTable::Customer => 150_000,
            TpchTable::Part => 200_000,
            TpchTable::Partsupp => 800_000,
            TpchTable::Orders => 1_500_000,
            TpchTable::Lineitem => 6_001_215,
        }
    }

    /// About how many rows it has at `scale`.
    pub fn rows(self, scale: f64) -> u64 {
        match self {
            TpchTable::Region | TpchTable::Nation => self.rows_at_scale_1(),
            // Truncated as the generator truncates; exact below 2^53 rows.
            _ => (self.rows_at_scale_1() as f64 * scale) as u64,
        }
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        // The types follow from what one empty batch holds.
        match self {
            TpchTable::Region => region(&[]),
            TpchTable::Nation => nation(&[]),
            TpchTable::Supplier => supplier(&[]),
            TpchTable::Customer => customer(&[]),
            TpchTable::Part => part(&[]),
            TpchTable::Partsupp => partsupp(&[]),
            TpchTable::Orders => orders(&[]),
            TpchTable::Lineitem => lineitem(&[]),
        }
        .schema()
    }

    /// The rows of part `part` (from 1) of `parts` at `scale`.
    pub fn batches(self, scale: f64, part: i32, parts: i32) -> Batches {
        assert!((1..=parts).contains(&part), "parts are counted from 1");
        match self {
            // The generator does not divide these two into parts.
            TpchTable::Region if part == 1 => {
                batches(RegionGenerator::new(scale, 1, 1).iter(), region)
            }
            TpchTable::Nation if part == 1 => {
                batches(NationGenerator::new(scale, 1, 1).iter(), nation)
            }
            TpchTable::Region | TpchTable::Nation => Box::new(std::iter::empty()),
            TpchTable::Supplier => {
                batches(SupplierGenerator::new(scale, part, parts).iter(), supplier)
            }
            TpchTable::Customer => {
                batches(CustomerGenerator::new(scale, part, parts).iter(), customer)
            }
            TpchTable::Part => batches(PartGenerator::new(scale, part, parts).iter(), self::part),
            TpchTable::Partsupp => {
                batches(PartSuppGenerator::new(scale, part, parts).iter(), partsupp)
            }
            TpchTable::Orders => batches(OrderGenerator::new(scale, part, parts).iter(), orders),
            TpchTable::Lineitem => {
                batches(LineItemGenerator::new(scale, part, parts).iter(), lineitem)
            }
        }
    }
}

fn batches<T: Send + 'static>(
    rows: impl Iterator<Item = T> + Send + 'static,
    build: fn(&[T]) -> RecordBatch,
) -> Batches {
    let mut rows = rows;
    let mut chunk: Vec<T> = Vec::with_capacity(BATCH_ROWS);
    Box::new(std::iter::from_fn(move || {
        chunk.clear();
        chunk.extend(rows.by_ref().take(BATCH_ROWS));
        (!chunk.is_empty()).then(|| build(&chunk))
    }))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), false))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .expect("the schema was made from these arrays")
}

fn longs(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn ints(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn hundredths(values: impl Iterator<Item = i64>) -> ArrayRef {
    let array = Decimal128Array::from_iter_values(values.map(i128::from));
    Arc::new(array.with_data_type(DataType::Decimal128(15, 2)))
}

fn decimals(values: impl Iterator<Item = TPCHDecimal>) -> ArrayRef {
    hundredths(values.map(TPCHDecimal::into_inner))
}

fn dates(values: impl Iterator<Item = TPCHDate>) -> ArrayRef {
    Arc::new(Date32Array::from_iter_values(values.map(|d| d.to_unix_epoch())))
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(BATCH_ROWS, BATCH_ROWS * 32);
    for value in values {
        builder.append_value(value);
    }
    Arc::new(builder.finish())
}

fn shown(values: impl Iterator<Item = impl Display>) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(BATCH_ROWS, BATCH_ROWS * 32);
    for value in values {
        write!(builder, "{value}").expect("writing to memory cannot fail");
        builder.append_value("");
    }
    Arc::new(builder.finish())
}

fn region(rows: &[Region<'_>]) -> RecordBatch {
    batch(vec![
        ("r_regionkey", longs(rows.iter().map(|r| r.r_regionkey))),
        ("r_name", texts(rows.iter().map(|r| r.r_name))),
        ("r_comment", texts(rows.iter().map(|r| r.r_comment))),
    ])
}

fn nation(rows: &[Nation<'_>]) -> RecordBatch {
    batch(vec![
        ("n_nationkey", longs(rows.iter().map(|r| r.n_nationkey))),
        ("n_name", texts(rows.iter().map(|r| r.n_name))),
        ("n_regionkey", longs(rows.iter().map(|r| r.n_regionkey))),
        ("n_comment", texts(rows.iter().map(|r| r.n_comment))),
    ])
}

fn supplier(rows: &[Supplier]) -> RecordBatch {
    batch(vec![
        ("s_suppkey", longs(rows.iter().map(|r| r.s_suppkey))),
        ("s_name", shown(rows.iter().map(|r| &r.s_name))),
        ("s_address", shown(rows.iter().map(|r| &r.s_address))),
        ("s_nationkey", longs(rows.iter().map(|r| r.s_nationkey))),
        ("s_phone", shown(rows.iter().map(|r| &r.s_phone))),
        ("s_acctbal", decimals(rows.iter().map(|r| r.s_acctbal))),
        ("s_comment", texts(rows.iter().map(|r| r.s_comment.as_str()))),
    ])
}

fn customer(rows: &[Customer<'_>]) -> RecordBatch {
    batch(vec![
        ("c_custkey", longs(rows.iter().map(|r| r.c_custkey))),
        ("c_name", shown(rows.iter().map(|r| &r.c_name))),
        ("c_address", shown(rows.iter().map(|r| &r.c_address))),
        ("c_nationkey", longs(rows.iter().map(|r| r.c_nationkey))),
        ("c_phone", shown(rows.iter().map(|r| &r.c_phone))),
        ("c_acctbal", decimals(rows.iter().map(|r| r.c_acctbal))),
        ("c_mktsegment", texts(rows.iter().map(|r| r.c_mktsegment))),
        ("c_comment", texts(rows.iter().map(|r| r.c_comment))),
    ])
}

fn part(rows: &[Part<'_>]) -> RecordBatch {
    batch(vec![
        ("p_partkey", longs(rows.iter().map(|r| r.p_partkey))),
        ("p_name", shown(rows.iter().map(|r| &r.p_name))),
        ("p_mfgr", shown(rows.iter().map(|r| &r.p_mfgr))),
        ("p_brand", shown(rows.iter().map(|r| &r.p_brand))),
        ("p_type", texts(rows.iter().map(|r| r.p_type))),
        ("p_size", ints(rows.iter().map(|r| r.p_size))),
        ("p_container", texts(rows.iter().map(|r| r.p_container))),
        ("p_retailprice", decimals(rows.iter().map(|r| r.p_retailprice))),
        ("p_comment", texts(rows.iter().map(|r| r.p_comment))),
    ])
}

fn partsupp(rows: &[PartSupp<'_>]) -> RecordBatch {
    batch(vec![
        ("ps_partkey", longs(rows.iter().map(|r| r.ps_partkey))),
        ("ps_suppkey", longs(rows.iter().map(|r| r.ps_suppkey))),
        ("ps_availqty", ints(rows.iter().map(|r| r.ps_availqty))),
        ("ps_supplycost", decimals(rows.iter().map(|r| r.ps_supplycost))),
        ("ps_comment", texts(rows.iter().map(|r| r.ps_comment))),
    ])
}

fn orders(rows: &[Order<'_>]) -> RecordBatch {
    batch(vec![
        ("o_orderkey", longs(rows.iter().map(|r| r.o_orderkey))),
        ("o_custkey", longs(rows.iter().map(|r| r.o_custkey))),
        ("o_orderstatus", texts(rows.iter().map(|r| r.o_orderstatus.as_str()))),
        ("o_totalprice", decimals(rows.iter().map(|r| r.o_totalprice))),
        ("o_orderdate", dates(rows.iter().map(|r| r.o_orderdate))),
        ("o_orderpriority", texts(rows.iter().map(|r| r.o_orderpriority))),
        ("o_clerk", shown(rows.iter().map(|r| &r.o_clerk))),
        ("o_shippriority", ints(rows.iter().map(|r| r.o_shippriority))),
        ("o_comment", texts(rows.iter().map(|r| r.o_comment))),
    ])
}

fn lineitem(rows: &[LineItem<'_>]) -> RecordBatch {
    batch(vec![
        ("l_orderkey", longs(rows.iter().map(|r| r.l_orderkey))),
        ("l_partkey", longs(rows.iter().map(|r| r.l_partkey))),
        ("l_suppkey", longs(rows.iter().map(|r| r.l_suppkey))),
        ("l_linenumber", ints(rows.iter().map(|r| r.l_linenumber))),
        ("l_quantity", hundredths(rows.iter().map(|r| r.l_quantity * 100))),
        ("l_extendedprice", decimals(rows.iter().map(|r| r.l_extendedprice))),
        ("l_discount", decimals(rows.iter().map(|r| r.l_discount))),
        ("l_tax", decimals(rows.iter().map(|r| r.l_tax))),
        ("l_returnflag", texts(rows.iter().map(|r| r.l_returnflag))),
        ("l_linestatus", texts(rows.iter().map(|r| r.l_linestatus))),
        ("l_shipdate", dates(rows.iter().map(|r| r.l_shipdate))),
        ("l_commitdate", dates(rows.iter().map(|r| r.l_commitdate))),
        ("l_receiptdate", dates(rows.iter().map(|r| r.l_receiptdate))),
        ("l_shipinstruct", texts(rows.iter().map(|r| r.l_shipinstruct))),
        ("l_shipmode", texts(rows.iter().map(|r| r.l_shipmode))),
        ("l_comment", texts(rows.iter().map(|r| r.l_comment))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_together_are_the_whole_table() {
        for table in TpchTable::ALL {
            let whole: usize = table.batches(0.01, 1, 1).map(|b| b.num_rows()).sum();
            let parts: usize =
                (1..=3).flat_map(|part| table.batches(0.01, part, 3)).map(|b| b.num_rows()).sum();
            assert_eq!(whole, parts, "{}", table.name());
            let about = table.rows(0.01) as f64;
            assert!((whole as f64 / about - 1.0).abs() < 0.01, "{}: {whole}", table.name());
            let first = table.batches(0.01, 1, 1).next().map(|b| b.schema());
            assert_eq!(first, Some(table.schema()));
        }
    }
}
