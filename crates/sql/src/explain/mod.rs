//! EXPLAIN: what a statement will do, or did, for people and for programs.
//!
//! A plan of DataFusion becomes typed facts (`facts`, made by `tree`); text lines and JSON are made from
//! these at the edge. What happened at run time comes from instruments (`measure`).

pub(crate) mod calls;
mod details;
pub mod facts;
mod json;
mod leaves;
pub(crate) mod measure;
pub(crate) mod names;
mod numbers;
mod operation;
pub mod options;
mod scans;
pub(crate) mod tables;
mod text;
mod tree;

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use datafusion::physical_plan::ExecutionPlan;

use crate::explain::facts::{Kind, Operator, Plan, Run};
use crate::explain::options::ExplainOptions;
use crate::explain::tables::Tables;
use crate::explain::text::Details;
use crate::output::{Format, Writer};

/// The output of an EXPLAIN.
#[derive(Clone, Debug)]
pub struct Explained {
    /// A line before the others.
    head: Option<String>,
    said: Said,
}

#[derive(Clone, Debug)]
enum Said {
    /// The facts, for lines as wide as the reader wants.
    Facts(Box<Plan>, Details),
    /// Lines from elsewhere.
    Lines(Vec<String>),
    /// A document.
    Document(serde_json::Value),
}

/// The operators of a plan, below the one that would write its rows, if any.
pub(crate) fn operators(
    plan: &Arc<dyn ExecutionPlan>,
    tables: &Tables,
    write: Option<Kind>,
) -> datafusion::error::Result<Operator> {
    let first = usize::from(write.is_some());
    let root = tree::Tree::new(tables, plan, first).of(plan)?;
    Ok(match write {
        Some(kind) => {
            Operator { id: 0, kind, estimated: root.estimated, actual: None, inputs: vec![root] }
        }
        None => root,
    })
}

impl Explained {
    /// The output made from operators, and the cost of their run.
    pub(crate) fn new(root: Operator, run: Option<Run>, options: &ExplainOptions) -> Explained {
        let told = Details {
            costs: options.costs,
            timing: options.timing.unwrap_or(true),
            summary: options.summary.unwrap_or(true),
        };
        let plan = Plan { root, run };
        let said = match options.is_json() {
            true => Said::Document(json::document(&plan, told)),
            false => Said::Facts(Box::new(plan), told),
        };
        Explained { head: None, said }
    }

    /// The output made from a given text.
    pub(crate) fn of_text(text: &str) -> Explained {
        Explained { head: None, said: Said::Lines(text.lines().map(str::to_owned).collect()) }
    }

    /// The same with a line in front.
    pub(crate) fn with_head(self, head: String) -> Explained {
        Explained { head: Some(head), ..self }
    }

    /// The lines, at most so many characters wide if their words allow it.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let lines = match &self.said {
            Said::Facts(plan, told) => text::lines(plan, *told, width),
            Said::Lines(lines) => lines.clone(),
            Said::Document(document) => {
                return format!("{document:#}").lines().map(str::to_owned).collect();
            }
        };
        self.head.iter().cloned().chain(lines).collect()
    }

    /// The document, if one was requested.
    pub fn document(&self) -> Option<&serde_json::Value> {
        match &self.said {
            Said::Document(document) => Some(document),
            _ => None,
        }
    }

    /// The plan as rows of one column: a row for each line, or one with the document.
    ///
    /// # Errors
    /// Only an error inside Arrow; none is expected.
    pub fn batch(&self, width: usize) -> Result<RecordBatch, ArrowError> {
        let lines = match &self.said {
            Said::Document(document) => vec![document.to_string()],
            _ => self.lines(width),
        };
        let schema = Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]));
        RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(lines))])
    }

    /// Writes it: for people as lines, for programs as the document or as rows.
    ///
    /// # Errors
    /// Writing to `out` failed.
    pub fn write(&self, mut out: impl Write, format: Format, width: usize) -> io::Result<()> {
        match (format, self.document()) {
            (Format::Table, _) => {
                for line in self.lines(width) {
                    writeln!(out, "{line}")?;
                }
            }
            (Format::Json, Some(document)) => writeln!(out, "{document}")?,
            (format, _) => {
                let batch = self.batch(width).map_err(io::Error::other)?;
                let mut writer = Writer::new(&mut out, format, &batch.schema(), width)?;
                writer.write(&batch)?;
                writer.finish()?;
            }
        }
        out.flush()
    }
}
