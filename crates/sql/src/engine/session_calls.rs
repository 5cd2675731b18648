//! Functions that ask the session: clock_timestamp() and others of its clock, current_setting(), set_config().

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::error::Error;
use crate::files::csv_format::external;
use crate::settings::Settings;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    /// When the statement began.
    Statement,
    /// The time, whenever it is asked for.
    Clock,
    /// current_setting(name [, missing_ok]).
    Setting,
    /// set_config(name, value, is_local).
    Set,
}

/// A function.
#[derive(Debug)]
pub(super) struct SessionCall {
    settings: Arc<Settings>,
    asked: Asked,
    signature: Signature,
}

impl PartialEq for SessionCall {
    fn eq(&self, other: &SessionCall) -> bool {
        self.asked == other.asked && Arc::ptr_eq(&self.settings, &other.settings)
    }
}

impl Eq for SessionCall {}

impl Hash for SessionCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.asked.hash(state);
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

impl SessionCall {
    /// All of them, for a session.
    pub fn udfs(settings: &Arc<Settings>) -> Vec<ScalarUDF> {
        let udf = |asked| {
            let settings = Arc::clone(settings);
            let signature = Signature::user_defined(match asked {
                Asked::Statement | Asked::Setting => Volatility::Stable,
                Asked::Clock | Asked::Set => Volatility::Volatile,
            });
            ScalarUDF::new_from_impl(SessionCall { settings, asked, signature })
        };
        [Asked::Statement, Asked::Clock, Asked::Setting, Asked::Set].into_iter().map(udf).collect()
    }

    /// A point in time.
    fn instant(&self, nanos: u64) -> ScalarValue {
        let micros = i64::try_from(nanos / 1_000).ok();
        ScalarValue::TimestampMicrosecond(micros, Some(Arc::clone(&self.settings.now().zone)))
    }

    fn setting(&self, args: &[ArrayRef], row: usize) -> Result<Option<String>, Error> {
        if args[0].is_null(row) {
            return Ok(None);
        }
        let is_lenient = args.get(1).is_some_and(|own| own.as_boolean().value(row));
        match self.settings.get(args[0].as_string::<i32>().value(row)) {
            Ok((_, value)) => Ok(Some(value)),
            Err(error) if is_lenient && error.sqlstate == "42704" => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set(&self, args: &[ArrayRef], row: usize) -> Result<Option<String>, Error> {
        if args[0].is_null(row) {
            return Err(Error::new(1405, "22004", "set_config of NULL: name a setting"));
        }
        let text = |at: usize| {
            let own = &args[at];
            (!own.is_null(row)).then(|| own.as_string::<i32>().value(row))
        };
        let is_local = !args[2].is_null(row) && args[2].as_boolean().value(row);
        let name = text(0).unwrap_or_default();
        self.settings.set(name, text(1), is_local)?;
        Ok(Some(self.settings.get(name)?.1))
    }
}

impl ScalarUDFImpl for SessionCall {
    fn name(&self) -> &'static str {
        match self.asked {
            Asked::Statement => "statement_timestamp",
            Asked::Clock => "clock_timestamp",
            Asked::Setting => "current_setting",
            Asked::Set => "set_config",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted: &[DataType] = match (self.asked, types.len()) {
            (Asked::Statement | Asked::Clock, 0) => &[],
            (Asked::Setting, 1) => &[DataType::Utf8],
            (Asked::Setting, 2) => &[DataType::Utf8, DataType::Boolean],
            (Asked::Set, 3) => &[DataType::Utf8, DataType::Utf8, DataType::Boolean],
            (_, count) => return plan_err!("{} does not take {count} arguments", self.name()),
        };
        Ok(wanted.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.asked {
            Asked::Statement | Asked::Clock => {
                let zone = Arc::clone(&self.settings.now().zone);
                DataType::Timestamp(TimeUnit::Microsecond, Some(zone))
            }
            Asked::Setting | Asked::Set => DataType::Utf8,
        })
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.asked {
            Asked::Statement => {
                let began = self.settings.clock.statement().unwrap_or_else(now);
                Ok(ExprSimplifyResult::Simplified(lit(self.instant(began))))
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let count = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(count));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let texts = |own: fn(&Self, &[ArrayRef], usize) -> Result<Option<String>, Error>| {
            let values = (0..count).map(|row| own(self, &arrays, row).map_err(external));
            let values: StringArray = values.collect::<Result<_>>()?;
            Ok(ColumnarValue::Array(Arc::new(values)))
        };
        match (self.asked, arrays.len()) {
            (Asked::Statement, _) => {
                let began = self.settings.clock.statement().unwrap_or_else(now);
                Ok(ColumnarValue::Scalar(self.instant(began)))
            }
            (Asked::Clock, _) => Ok(ColumnarValue::Scalar(self.instant(now()))),
            (Asked::Setting, 1 | 2) => texts(SessionCall::setting),
            (Asked::Set, 3) => texts(SessionCall::set),
            (_, count) => internal_err!("{} of {count} arguments", self.name()),
        }
    }
}
