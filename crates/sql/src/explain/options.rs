//! Options of an EXPLAIN: its keywords, or PostgreSQL's list in parentheses.

use datafusion::common::format::ExplainFormat;

use crate::error::Error;

/// The format of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlanFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A document for programs.
    Json,
    /// One of DataFusion's.
    DataFusion(ExplainFormat),
}

/// The options of an EXPLAIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    /// The statement is run, and measurements are shown.
    pub analyze: bool,
    /// DataFusion's own text.
    pub verbose: bool,
    /// The format.
    pub format: PlanFormat,
    /// Estimated rows.
    pub costs: bool,
    /// Times of operators; `None`: not specified.
    pub timing: Option<bool>,
    /// The last line; `None`: not specified.
    pub summary: Option<bool>,
}

impl Default for ExplainOptions {
    fn default() -> ExplainOptions {
        ExplainOptions {
            analyze: false,
            verbose: false,
            format: PlanFormat::Text,
            costs: true,
            timing: None,
            summary: None,
        }
    }
}

const KNOWN: &str = "ANALYZE, VERBOSE, COSTS, TIMING, SUMMARY, BUFFERS and FORMAT TEXT, JSON, TREE, \
                     INDENT or GRAPHVIZ";

impl ExplainOptions {
    /// Whether a document is wanted.
    pub fn is_json(&self) -> bool {
        self.format == PlanFormat::Json
    }

    /// Takes an option; without a value it is on.
    ///
    /// # Errors
    /// 00900 for an unknown option, or an invalid value; 03001 for one of PostgreSQL's that there is no
    /// information for.
    pub fn take(&mut self, name: &str, value: Option<&str>) -> Result<(), Error> {
        let upper = name.to_ascii_uppercase();
        if upper == "FORMAT" {
            self.format = format_of(value)?;
            return Ok(());
        }
        let is_on = is_on(&upper, value);
        match &*upper {
            "ANALYZE" | "ANALYSE" => self.analyze = is_on?,
            "VERBOSE" => self.verbose = is_on?,
            "COSTS" => self.costs = is_on?,
            "TIMING" => self.timing = Some(is_on?),
            "SUMMARY" => self.summary = Some(is_on?),
            // Bytes read and cached are shown for every scan that ran.
            "BUFFERS" => drop(is_on?),
            "SETTINGS" | "WAL" | "GENERIC_PLAN" | "MEMORY" | "SERIALIZE" => {
                if value.is_some_and(|value| value.eq_ignore_ascii_case("none")) || !is_on? {
                    return Ok(());
                }
                let error = Error::not_yet(format!("EXPLAIN option {upper}"));
                return Err(error.next(format!("leave it out: the options are {KNOWN}")));
            }
            _ => {
                let text = format!("EXPLAIN has no option \"{name}\"");
                return Err(Error::syntax(text).next(format!("the options are {KNOWN}")));
            }
        }
        Ok(())
    }

    /// Refuses options that have no effect without others.
    ///
    /// # Errors
    /// 00900 for TIMING without ANALYZE.
    pub fn check(&self) -> Result<(), Error> {
        if self.timing == Some(true) && !self.analyze {
            return Err(Error::syntax("EXPLAIN option TIMING needs ANALYZE")
                .next("explain (analyze, timing) ...: only what runs takes time"));
        }
        Ok(())
    }
}

fn is_on(name: &str, value: Option<&str>) -> Result<bool, Error> {
    let Some(value) = value else { return Ok(true) };
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" => Ok(true),
        "false" | "off" | "0" | "no" => Ok(false),
        _ => Err(Error::syntax(format!("EXPLAIN option {name} is ON or OFF, not \"{value}\""))
            .next(format!("explain ({name} on) ..."))),
    }
}

fn format_of(value: Option<&str>) -> Result<PlanFormat, Error> {
    let value = value.unwrap_or_default();
    match value.to_ascii_lowercase().as_str() {
        "text" => Ok(PlanFormat::Text),
        "json" => Ok(PlanFormat::Json),
        "tree" => Ok(PlanFormat::DataFusion(ExplainFormat::Tree)),
        "indent" => Ok(PlanFormat::DataFusion(ExplainFormat::Indent)),
        "graphviz" => Ok(PlanFormat::DataFusion(ExplainFormat::Graphviz)),
        "pgjson" => Ok(PlanFormat::DataFusion(ExplainFormat::PostgresJSON)),
        "xml" | "yaml" => Err(Error::not_yet(format!("EXPLAIN (FORMAT {})", value.to_uppercase()))
            .next("explain (format json) ...")),
        _ => Err(Error::syntax(format!("EXPLAIN has no format \"{value}\""))
            .next("the formats are TEXT, JSON, TREE, INDENT and GRAPHVIZ")),
    }
}
