//! Loops, and the time that a block waits.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use super::names::Named;
use super::values::{Record, Slot};
use super::{Flow, Run, STEPS_AT_ONCE, place_of};
use crate::blocks::{Code, Step, StepKind};
use crate::error::Error;
use crate::failure::from_arrow;

/// The longest sleep: a day.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a loop does after its steps: goes on, or ends so.
fn after(flow: Flow, label: Option<&String>) -> Result<(), Flow> {
    let is_own = |named: &Option<String>| named.is_none() || named.as_ref() == label;
    match flow {
        Flow::Next => Ok(()),
        Flow::Continue(named) if is_own(&named) => Ok(()),
        Flow::Exit(named) if is_own(&named) => Err(Flow::Next),
        flow => Err(flow),
    }
}

fn whole(number: i64, is_wide: bool) -> ArrayRef {
    match i32::try_from(number) {
        Ok(number) if !is_wide => Arc::new(Int32Array::from(vec![number])),
        _ => Arc::new(Int64Array::from(vec![number])),
    }
}

impl Run<'_> {
    /// LOOP, WHILE, FOR.
    pub(super) async fn looped(&mut self, step: &Step) -> Result<Flow, Error> {
        let depth = self.scopes.open(None);
        let flow = match &step.kind {
            StepKind::Loop { label, steps } => self.for_ever(label.as_ref(), steps).await,
            StepKind::While { label, condition, steps } => {
                self.while_true(label.as_ref(), condition, steps).await
            }
            StepKind::ForRange { .. } => self.over_range(step).await,
            _ => self.over_rows(step).await,
        };
        self.scopes.close(depth);
        flow
    }

    /// Lets others work, and the statement be stopped, also in loops without steps.
    async fn turn(&mut self) {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_AT_ONCE) {
            tokio::task::yield_now().await;
        }
    }

    async fn for_ever(&mut self, label: Option<&String>, steps: &[Step]) -> Result<Flow, Error> {
        loop {
            self.turn().await;
            if let Err(flow) = after(self.steps(steps).await?, label) {
                return Ok(flow);
            }
        }
    }

    async fn while_true(
        &mut self,
        label: Option<&String>,
        condition: &Code,
        steps: &[Step],
    ) -> Result<Flow, Error> {
        while self.is_true(condition).await? {
            self.turn().await;
            if let Err(flow) = after(self.steps(steps).await?, label) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    async fn bound(&mut self, code: &Code) -> Result<i64, Error> {
        let number = self.number_of(code).await?;
        number.ok_or_else(|| Error::new(6502, "22004", "a bound of FOR is NULL").at(code.at))
    }

    async fn over_range(&mut self, step: &Step) -> Result<Flow, Error> {
        let StepKind::ForRange { label, variable, is_reverse, from, to, by, steps } = &step.kind
        else {
            return Ok(Flow::Next);
        };
        let (from, to) = (self.bound(from).await?, self.bound(to).await?);
        let by = match by {
            Some(by) => self.bound(by).await?,
            None => 1,
        };
        if by < 1 {
            return Err(Error::new(6502, "22023", "BY of FOR must be greater than zero"));
        }
        // In Oracle REVERSE 1 .. 3 goes from 3 to 1; in PostgreSQL it is 3 .. 1.
        let (mut at, last, by) = match (is_reverse, self.dialect) {
            (false, _) => (from, to, by),
            (true, crate::blocks::Dialect::Oracle) => (to, from, -by),
            (true, crate::blocks::Dialect::Postgres) => (from, to, -by),
        };
        let is_wide = [from, to].iter().any(|own| i32::try_from(*own).is_err());
        let data_type = if is_wide { DataType::Int64 } else { DataType::Int32 };
        let slot = Slot {
            name: variable.clone(),
            data_type,
            length: None,
            value: whole(at, is_wide),
            is_constant: true,
            not_null: true,
        };
        let slot = self.slots.at(place_of(step), slot);
        self.scopes.add(variable, Named::Slot(slot));
        let mut has_run = false;
        while if by > 0 { at <= last } else { at >= last } {
            self.turn().await;
            has_run = true;
            self.slots.all[slot].value = whole(at, is_wide);
            if let Err(flow) = after(self.steps(steps).await?, label.as_ref()) {
                return Ok(flow);
            }
            let Some(next) = at.checked_add(by) else { break };
            at = next;
        }
        self.slots.found = has_run;
        Ok(Flow::Next)
    }

    async fn over_rows(&mut self, step: &Step) -> Result<Flow, Error> {
        let StepKind::ForRows { label, variable, query, steps } = &step.kind else {
            return Ok(Flow::Next);
        };
        let answer = self.answer_of(query).await?;
        let (schema, batches) = self.rows_of(answer).await?;
        let record = match self.scopes.find(std::slice::from_ref(variable)) {
            Some(Named::Record(record)) => record,
            _ => {
                let record = Record { name: variable.clone(), row: None };
                let record = self.slots.record_at(place_of(step), record);
                self.scopes.add(variable, Named::Record(record));
                record
            }
        };
        for batch in &batches {
            for row in 0..batch.num_rows() {
                self.turn().await;
                let values = batch.columns().iter().map(|own| own.slice(row, 1)).collect();
                self.slots.records[record].row = Some((Arc::clone(&schema), values));
                if let Err(flow) = after(self.steps(steps).await?, label.as_ref()) {
                    return Ok(flow);
                }
            }
        }
        self.slots.found = batches.iter().any(|batch| batch.num_rows() > 0);
        Ok(Flow::Next)
    }

    /// dbms_lock.sleep(seconds).
    pub(super) async fn sleep(&mut self, code: &Code) -> Result<(), Error> {
        let value = self.value(code, Some(&DataType::Float64)).await?;
        let value = cast(&value, &DataType::Float64).map_err(|error| from_arrow(&error))?;
        let seconds = value.as_primitive::<Float64Type>();
        let seconds = if seconds.is_valid(0) { seconds.value(0) } else { 0.0 };
        let time = Duration::try_from_secs_f64(seconds).map_err(|_| {
            Error::new(6502, "22023", format!("sleep: {seconds} seconds is not valid"))
                .next("a day at most")
        })?;
        match self.engine.host.rows() {
            Some(rows) => rows.session().sleep(time.min(SLEEP_MAX)).await,
            None => tokio::time::sleep(time.min(SLEEP_MAX)).await,
        }
        Ok(())
    }
}
