//! PostgreSQL's advisory lock functions: pg_advisory_lock() and its kin.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use async_trait::async_trait;
use cellar_instance::heap::{AdvisoryKey, AdvisoryMode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use crate::error::Error;
use crate::files::csv_format::external;
use crate::host::Host;
use crate::rows::Ask;

/// The functions: name, kind of call, whether the lock is shared, whether it lasts until the transaction
/// ends.
const CALLS: [(&str, Ask, bool, bool); 11] = [
    ("pg_advisory_lock", Ask::Lock, false, false),
    ("pg_advisory_lock_shared", Ask::Lock, true, false),
    ("pg_advisory_xact_lock", Ask::Lock, false, true),
    ("pg_advisory_xact_lock_shared", Ask::Lock, true, true),
    ("pg_try_advisory_lock", Ask::Try, false, false),
    ("pg_try_advisory_lock_shared", Ask::Try, true, false),
    ("pg_try_advisory_xact_lock", Ask::Try, false, true),
    ("pg_try_advisory_xact_lock_shared", Ask::Try, true, true),
    ("pg_advisory_unlock", Ask::Unlock, false, false),
    ("pg_advisory_unlock_shared", Ask::Unlock, true, false),
    ("pg_advisory_unlock_all", Ask::UnlockAll, false, false),
];

/// A function.
#[derive(Debug)]
pub(super) struct AdvisoryCall {
    host: Arc<dyn Host>,
    name: &'static str,
    ask: Ask,
    mode: AdvisoryMode,
    signature: Signature,
}

impl PartialEq for AdvisoryCall {
    fn eq(&self, other: &AdvisoryCall) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.host, &other.host)
    }
}

impl Eq for AdvisoryCall {}

impl Hash for AdvisoryCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AdvisoryCall {
    /// All of them, for a session.
    pub fn udfs(host: &Arc<dyn Host>) -> Vec<ScalarUDF> {
        let udf = |(name, ask, is_shared, in_transaction)| {
            let host = Arc::clone(host);
            let mode = AdvisoryMode { is_shared, in_transaction };
            // A function that waits is async: only its signature is used.
            let numbers = |count| TypeSignature::Exact(vec![DataType::Int64; count]);
            let takes = match ask {
                Ask::UnlockAll => TypeSignature::Nullary,
                _ => TypeSignature::OneOf(vec![numbers(1), numbers(2)]),
            };
            let signature = Signature::new(takes, Volatility::Volatile);
            let call = AdvisoryCall { host, name, ask, mode, signature };
            AsyncScalarUDF::new(Arc::new(call)).into_scalar_udf()
        };
        CALLS.into_iter().map(udf).collect()
    }

    /// The lock key in a row: one number, or the halves of one.
    fn key(args: &[ArrayRef], row: usize) -> Option<AdvisoryKey> {
        if args.iter().any(|own| own.is_null(row)) {
            return None;
        }
        let number = |at: usize| args[at].as_primitive::<Int64Type>().value(row);
        Some(match args.len() {
            0 => AdvisoryKey { is_pair: false, number: 0 },
            1 => AdvisoryKey { is_pair: false, number: number(0).cast_unsigned() },
            // The upper half, and the lower without its sign extension.
            _ => {
                let (high, low) = (number(0).cast_unsigned(), number(1).cast_unsigned());
                AdvisoryKey { is_pair: true, number: high << 32 | low & 0xFFFF_FFFF }
            }
        })
    }
}

impl ScalarUDFImpl for AdvisoryCall {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.ask {
            Ask::Lock | Ask::UnlockAll => DataType::Utf8,
            Ask::Try | Ask::Unlock => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} waits", self.name)
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for AdvisoryCall {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(rows) = self.host.rows() else {
            return Err(external(Error::not_yet("an advisory lock, here")));
        };
        let count = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(count));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let mut told = Vec::with_capacity(count);
        for row in 0..count {
            told.push(match AdvisoryCall::key(&arrays, row) {
                None => None,
                Some(key) => Some(rows.advise(self.ask, key, self.mode).await.map_err(external)?),
            });
        }
        Ok(ColumnarValue::Array(match self.ask {
            Ask::Try | Ask::Unlock => Arc::new(BooleanArray::from(told)),
            // PostgreSQL's type void, which is shown as an empty text.
            Ask::Lock | Ask::UnlockAll => {
                let texts = told.into_iter().map(|told| told.map(|_| ""));
                Arc::new(texts.collect::<StringArray>())
            }
        }))
    }
}
