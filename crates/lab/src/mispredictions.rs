//! Wrong predictions of a model: a model is worth what it predicts, so each report ends
//! with its failures.

use crate::run::{Arm, Run, Verdict, verdict};

/// A prediction with a larger relative error counts as wrong.
const OFF: f64 = 0.25;
/// If a model and a measurement of layouts differ by less than this, they do not contradict each other.
const SAME: f64 = 0.1;
/// The number of wrong predictions that are listed.
const TOLD: usize = 4;

/// A prediction and the value that it is compared with.
struct Prediction {
    /// The predicted value divided by the actual one.
    times: f64,
    words: String,
}

impl Prediction {
    fn is_wrong(&self) -> bool {
        self.times.ln().abs() > (1.0 + OFF).ln()
    }
}

/// The end of a report, about the model; `None` without a model, or without anything to compare it
/// with.
pub(crate) fn predictions(run: &Run) -> Option<String> {
    let mut all: Vec<Prediction> = run.arms.iter().flat_map(|arm| published(run, arm)).collect();
    let contradicted: Vec<String> =
        run.arms.iter().filter_map(|arm| contradicted(run, arm)).collect();
    if all.is_empty() && contradicted.is_empty() {
        return None;
    }
    let count = all.len();
    all.retain(Prediction::is_wrong);
    all.sort_by(|a, b| b.times.ln().abs().total_cmp(&a.times.ln().abs()));
    let wrong = all.len();
    let mut text = match (count, wrong) {
        (0, _) => String::new(),
        (_, 0) => format!(
            "none of the {count} published figures that the model was not made from is missed by \
             more than {:.0} %",
            100.0 * OFF
        ),
        _ => format!(
            "{wrong} of the {count} published figures that the model was not made from {} missed by \
             more than {:.0} %: {}",
            if wrong == 1 { "is" } else { "are" },
            100.0 * OFF,
            some(all.into_iter().map(|p| p.words).collect())
        ),
    };
    if !contradicted.is_empty() {
        if !text.is_empty() {
            text.push_str(". ");
        }
        text += &format!("These disks contradict the model: {}", some(contradicted));
    }
    Some(text)
}

/// The first of many.
fn some(mut words: Vec<String>) -> String {
    let more = words.len().saturating_sub(TOLD);
    words.truncate(TOLD);
    let mut text = words.join("; ");
    if more > 0 {
        text += &format!("; and {more} more, which the table shows");
    }
    text
}

/// The model's predictions for each published figure that it was not fitted to.
fn published(run: &Run, arm: &Arm) -> Vec<Prediction> {
    let (Some(model), Some(published)) = (&arm.model, &arm.published) else { return Vec::new() };
    let mut all = Vec::new();
    for (at, layout) in run.layouts.iter().enumerate() {
        let figure = |of: &[Option<f64>]| of.get(at).copied().flatten().filter(|v| *v > 0.0);
        let (Some(model), Some(published)) = (figure(model), figure(published)) else { continue };
        if arm.is_fitted(at) {
            continue;
        }
        let words = format!(
            "{} on {layout}, {} {} rather than {}",
            arm.what,
            short(model),
            arm.unit,
            short(published)
        );
        all.push(Prediction { times: model / published, words });
    }
    all
}

/// The measured ratio of the first two layouts, if the model says the contrary.
fn contradicted(run: &Run, arm: &Arm) -> Option<String> {
    let (model, here) = (arm.model.as_ref()?, arm.here.as_ref()?);
    let figure = |of: &[Option<f64>], at: usize| of.get(at).copied().flatten().filter(|v| *v > 0.0);
    let both: Vec<usize> = (0..run.layouts.len())
        .filter(|at| figure(model, *at).is_some() && figure(here, *at).is_some())
        .collect();
    let (first, second) = (*both.first()?, *both.get(1)?);
    let times = |of: &[Option<f64>]| Some(figure(of, second)? / figure(of, first)?);
    let (predicted, measured) = (times(model)?, times(here)?);
    let told =
        (verdict(predicted, SAME), verdict(measured, arm.spread.max(run.noise.spread).max(SAME)));
    let contrary = matches!(
        told,
        (Verdict::Faster, Verdict::Slower | Verdict::NotDistinguishable)
            | (Verdict::Slower, Verdict::Faster | Verdict::NotDistinguishable)
    );
    contrary.then(|| {
        format!(
            "{}, {}: {} is {} times {}, predicted {}",
            arm.what,
            arm.unit,
            run.layouts[second],
            short(measured),
            run.layouts[first],
            short(predicted)
        )
    })
}

/// A figure with few digits.
fn short(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{v:.2}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arm: Arm) -> Run {
        let layouts = vec!["1 disk".to_owned(), "2 disks".to_owned()];
        Run { layouts, arms: vec![arm], ..Run::default() }
    }

    fn arm(published: [f64; 2], model: [f64; 2], here: Option<[f64; 2]>) -> Arm {
        let some = |of: [f64; 2]| of.map(Some).to_vec();
        Arm {
            what: "small commits".to_owned(),
            unit: "ms".to_owned(),
            published: Some(some(published)),
            model: Some(some(model)),
            here: here.map(some),
            ..Arm::default()
        }
    }

    #[test]
    fn what_the_model_missed_is_told_the_worst_first() {
        let text = predictions(&run(arm([2.0, 1.0], [380.0, 1.1], None))).unwrap();
        let expected = "1 of the 2 published figures that the model was not made from is missed by \
                        more than 25 %: small commits on 1 disk, 380 ms rather than 2.00";
        assert_eq!(text, expected);
        let text = predictions(&run(arm([2.0, 1.0], [2.2, 1.1], None))).unwrap();
        assert!(text.starts_with("none of the 2"), "{text}");
        let fitted = Arm { fitted: true, ..arm([2.0, 1.0], [380.0, 1.1], None) };
        assert_eq!(predictions(&run(fitted)), None);
    }

    #[test]
    fn disks_that_say_the_contrary_are_told() {
        let text = predictions(&run(arm([1.0, 2.0], [1.0, 2.0], Some([1.0, 1.02])))).unwrap();
        assert!(text.ends_with("2 disks is 1.02 times 1 disk, predicted 2.00"), "{text}");
    }
}
