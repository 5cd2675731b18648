//! PostgreSQL's functions that wait for a time: pg_sleep(), pg_sleep_for(), pg_sleep_until().

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use async_trait::async_trait;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use crate::error::Error;
use crate::files::csv_format::external;
use crate::host::Host;
use crate::instants::length::nanos_of;

/// How the duration is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// This many seconds have gone by.
    Seconds,
    /// An interval has gone by.
    Interval,
    /// It is this time.
    Time,
}

/// A function.
#[derive(Debug)]
pub(super) struct Sleep {
    host: Arc<dyn Host>,
    until: Until,
    signature: Signature,
}

impl PartialEq for Sleep {
    fn eq(&self, other: &Sleep) -> bool {
        self.until == other.until && Arc::ptr_eq(&self.host, &other.host)
    }
}

impl Eq for Sleep {}

impl Hash for Sleep {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Sleep {
    /// All of them, for a session.
    pub fn udfs(host: &Arc<dyn Host>) -> Vec<ScalarUDF> {
        let udf = |until| {
            let takes = match until {
                Until::Seconds => DataType::Float64,
                Until::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
                Until::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            };
            let signature = Signature::new(TypeSignature::Exact(vec![takes]), Volatility::Volatile);
            let sleep = Sleep { host: Arc::clone(host), until, signature };
            AsyncScalarUDF::new(Arc::new(sleep)).into_scalar_udf()
        };
        [Until::Seconds, Until::Interval, Until::Time].into_iter().map(udf).collect()
    }

    /// The duration that the value in a row means, at a time in nanoseconds since 1970.
    fn time(&self, array: &ArrayRef, row: usize, now: u64) -> Duration {
        let seconds = match self.until {
            Until::Seconds => array.as_primitive::<Float64Type>().value(row),
            Until::Interval => {
                let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                nanos_of(interval) as f64 / 1e9
            }
            Until::Time => {
                let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
                micros as f64 / 1e6 - now as f64 / 1e9
            }
        };
        // What is negative, or no number, is no time.
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
    }
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &'static str {
        match self.until {
            Until::Seconds => "pg_sleep",
            Until::Interval => "pg_sleep_for",
            Until::Time => "pg_sleep_until",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        // PostgreSQL's type void, which is shown as an empty text.
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} waits", self.name())
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(rows) = self.host.rows() else {
            return Err(external(Error::not_yet("a function that waits, here")));
        };
        let array = args.args[0].to_array(args.number_rows)?;
        for row in (0..args.number_rows).filter(|row| array.is_valid(*row)) {
            rows.session().sleep(self.time(&array, row, rows.wall())).await;
        }
        let told = (0..args.number_rows).map(|row| array.is_valid(row).then_some(""));
        Ok(ColumnarValue::Array(Arc::new(told.collect::<StringArray>())))
    }
}
