//! Functions that ask the session: clock_timestamp() and others of its clock, current_setting(), set_config().

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::error::Error;
use crate::files::csv_format::external;
use crate::instants::zoned::{clocks_of, instants_at};
use crate::names::path::{Paths, SearchPath};
use crate::settings::{self, Settings};

/// What a function returns or does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    /// When the statement began.
    Statement,
    /// The time of the call.
    Clock,
    /// current_setting(name [, missing_ok]).
    Setting,
    /// set_config(name, value, is_local).
    Set,
    /// timezone(zone, point in time): AT TIME ZONE.
    Zone,
}

/// A function.
#[derive(Debug)]
pub(super) struct SessionCall {
    settings: Arc<Settings>,
    paths: Arc<Paths>,
    function: Function,
    signature: Signature,
}

impl PartialEq for SessionCall {
    fn eq(&self, other: &SessionCall) -> bool {
        self.function == other.function && Arc::ptr_eq(&self.settings, &other.settings)
    }
}

impl Eq for SessionCall {}

impl Hash for SessionCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

#[expect(clippy::disallowed_methods, reason = "the time of day, as DataFusion's own now() has it")]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Whether a setting is the search path, which is kept by itself.
fn is_path(name: &str) -> bool {
    name.eq_ignore_ascii_case("search_path")
}

/// What a row's arguments give.
type TextOfRow = fn(&SessionCall, &[ArrayRef], usize) -> Result<Option<String>, Error>;

impl SessionCall {
    /// All of them, for a session.
    pub fn udfs(settings: &Arc<Settings>, paths: &Arc<Paths>) -> Vec<ScalarUDF> {
        let udf = |function| {
            let (settings, paths) = (Arc::clone(settings), Arc::clone(paths));
            let signature = Signature::user_defined(match function {
                Function::Statement | Function::Setting | Function::Zone => Volatility::Stable,
                Function::Clock | Function::Set => Volatility::Volatile,
            });
            ScalarUDF::new_from_impl(SessionCall { settings, paths, function, signature })
        };
        let all = [
            Function::Statement,
            Function::Clock,
            Function::Setting,
            Function::Set,
            Function::Zone,
        ];
        all.into_iter().map(udf).collect()
    }

    /// The type of points in time.
    fn zoned(&self) -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(&self.settings.now().zone)))
    }

    /// The type of what is before AT TIME ZONE.
    fn instant_type(&self, own: &DataType) -> Result<DataType> {
        match own {
            DataType::Timestamp(_, None) => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
            DataType::Timestamp(..) | DataType::Date32 | DataType::Null => Ok(self.zoned()),
            text if text.is_string() => Ok(self.zoned()),
            other => plan_err!("AT TIME ZONE of {other}: it takes a timestamp"),
        }
    }

    /// What clocks of a zone show at points in time; or when they show what they are given.
    fn at_zone(&self, zones: &ArrayRef, instants: &ArrayRef) -> Result<ArrayRef> {
        let zones = zones.as_string::<i32>();
        let mut made: Vec<ArrayRef> = Vec::new();
        let mut from = 0;
        let same = |one: usize, other: usize| {
            zones.is_null(one) == zones.is_null(other)
                && (zones.is_null(one) || zones.value(one) == zones.value(other))
        };
        while from < zones.len() {
            let to = (from..zones.len()).find(|row| !same(from, *row)).unwrap_or(zones.len());
            let own = instants.slice(from, to - from);
            let has_zone = matches!(own.data_type(), DataType::Timestamp(_, Some(_)));
            let micros = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
            made.push(match zones.is_null(from) {
                true if has_zone => new_null_array(&micros(None), own.len()),
                true => new_null_array(&self.zoned(), own.len()),
                false => {
                    let zone: Arc<str> =
                        settings::zone(zones.value(from)).map_err(external)?.into();
                    match has_zone {
                        true => clocks_of(&cast(&own, &micros(Some(zone)))?, false)?,
                        false => cast(&instants_at(&own, &zone, false)?, &self.zoned())?,
                    }
                }
            });
            from = to;
        }
        let parts: Vec<&dyn Array> = made.iter().map(AsRef::as_ref).collect();
        match parts.is_empty() {
            true => Ok(Arc::clone(instants)),
            false => Ok(concat(&parts)?),
        }
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
        if is_path(args[0].as_string::<i32>().value(row)) {
            return Ok(Some(self.paths.current().to_string()));
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
        if is_path(name) {
            let path = text(1).map(SearchPath::of_text).transpose()?;
            self.paths.set(path, is_local);
            return Ok(Some(self.paths.current().to_string()));
        }
        self.settings.set(name, text(1), is_local)?;
        Ok(Some(self.settings.get(name)?.1))
    }
}

impl ScalarUDFImpl for SessionCall {
    fn name(&self) -> &'static str {
        match self.function {
            Function::Statement => "statement_timestamp",
            Function::Clock => "clock_timestamp",
            Function::Setting => "current_setting",
            Function::Set => "set_config",
            Function::Zone => "timezone",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let (Function::Zone, [_, instant]) = (self.function, types) {
            return Ok(vec![DataType::Utf8, self.instant_type(instant)?]);
        }
        let wanted: &[DataType] = match (self.function, types.len()) {
            (Function::Statement | Function::Clock, 0) => &[],
            (Function::Setting, 1) => &[DataType::Utf8],
            (Function::Setting, 2) => &[DataType::Utf8, DataType::Boolean],
            (Function::Set, 3) => &[DataType::Utf8, DataType::Utf8, DataType::Boolean],
            (_, count) => return plan_err!("{} does not take {count} arguments", self.name()),
        };
        Ok(wanted.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.function {
            Function::Zone if matches!(types.get(1), Some(DataType::Timestamp(_, Some(_)))) => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            Function::Zone => self.zoned(),
            Function::Statement | Function::Clock => self.zoned(),
            Function::Setting | Function::Set => DataType::Utf8,
        })
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.function {
            Function::Statement => {
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
        let texts = |own: TextOfRow| {
            let values = (0..count).map(|row| own(self, &arrays, row).map_err(external));
            let values: StringArray = values.collect::<Result<_>>()?;
            Ok(ColumnarValue::Array(Arc::new(values)))
        };
        match (self.function, arrays.len()) {
            (Function::Statement, _) => {
                let began = self.settings.clock.statement().unwrap_or_else(now);
                Ok(ColumnarValue::Scalar(self.instant(began)))
            }
            (Function::Clock, _) => Ok(ColumnarValue::Scalar(self.instant(now()))),
            (Function::Zone, 2) => Ok(ColumnarValue::Array(self.at_zone(&arrays[0], &arrays[1])?)),
            (Function::Setting, 1 | 2) => texts(SessionCall::setting),
            (Function::Set, 3) => texts(SessionCall::set),
            (_, count) => internal_err!("{} of {count} arguments", self.name()),
        }
    }
}
