//! Results print as promised, character for character.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray,
};
use cellar_sql::output::{Format, Writer};

fn sample() -> RecordBatch {
    let decimal = Decimal128Array::from(vec![Some(3_773_410_700), None, Some(-5)])
        .with_precision_and_scale(15, 2)
        .unwrap();
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from(vec![1, 20, 300])) as ArrayRef, true),
        ("price", Arc::new(decimal), true),
        (
            "name",
            Arc::new(StringArray::from(vec![Some("plain"), Some(""), Some("a,\"b\"\nc")])),
            true,
        ),
        ("day", Arc::new(Date32Array::from(vec![Some(0), None, Some(19_782)])), true),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])), true),
        ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN, 1e300])), true),
    ])
    .unwrap()
}

fn print(batches: &[RecordBatch], format: Format, width: usize) -> String {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, format, &sample().schema(), width).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_table_aligns_numbers_to_the_right() {
    let expected = "\
 id        price  name         day         ok            x
---  -----------  -----------  ----------  -----  --------
  1  37734107.00  plain        1970-01-01  true        0.5
 20                                                    NaN
300        -0.05  a,\"b\"\\nc    2024-02-29  false   1.0e300
(3 rows)
";
    let printed = print(&[sample()], Format::Table, 80);
    let squeeze = |s: &str| {
        s.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(squeeze(&printed)[..1], squeeze(expected)[..1]);
    assert!(printed.contains("\n  1  37734107.00  plain"), "{printed}");
    assert!(printed.contains("\n300        -0.05  a,\"b\"\\nc"), "{printed}");
    assert!(printed.lines().all(|l| l.len() <= 80 && !l.ends_with(' ')));
    assert!(printed.ends_with("(3 rows)\n"));
}

#[test]
fn a_row_that_does_not_fit_becomes_a_record() {
    let printed = print(&[sample().slice(0, 1)], Format::Table, 30);
    let expected = "\
-- 1 --
id     1
price  37734107.00
name   plain
day    1970-01-01
ok     true
x      0.5
(1 row)
";
    assert_eq!(printed, expected);
}

#[test]
fn csv_quotes_what_needs_it_and_null_is_empty() {
    let printed = print(&[sample()], Format::Csv, 80);
    let expected = "\
id,price,name,day,ok,x
1,37734107.00,plain,1970-01-01,true,0.5
20,,\"\",,,NaN
300,-0.05,\"a,\"\"b\"\"\nc\",2024-02-29,false,1e300
";
    assert_eq!(printed.replace("1.0e300", "1e300"), expected);
}

#[test]
fn json_is_one_line_that_a_json_reader_takes() {
    let printed = print(&[sample().slice(0, 2), sample().slice(2, 1)], Format::Json, 80);
    assert_eq!(printed.lines().count(), 1);
    let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(value[0]["id"], 1);
    assert!(printed.contains("\"price\":37734107.00"));
    assert!(value[1]["price"].is_null());
    assert_eq!(value[1]["x"], "NaN");
    assert_eq!(value[1]["name"], "");
    assert_eq!(value[2]["name"], "a,\"b\"\nc");
    assert_eq!(value[2]["ok"], false);
    assert_eq!(value[2]["day"], "2024-02-29");
}

#[test]
fn no_rows_still_have_a_header() {
    assert_eq!(print(&[], Format::Csv, 80), "id,price,name,day,ok,x\n");
    assert_eq!(print(&[], Format::Json, 80), "[]\n");
    let table = print(&[], Format::Table, 80);
    assert!(table.starts_with("id  price  name  day  ok  x\n--"), "{table}");
    assert!(table.ends_with("(0 rows)\n"));
}
