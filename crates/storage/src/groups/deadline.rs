//! The choice of a power for a change that is to be done by a time: the lowest that is fast enough.

use std::time::Duration;

use cellar_diskgroup::space::plan::Lack;

use super::estimate::Explained;

/// Safety factor on an estimate, for surprises.
pub const MARGIN: f64 = 1.15;

/// Whether a change can be done, and the power and the time it would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerChoice {
    /// Bytes that must move and have no destination.
    pub lacking: u64,
    /// The power.
    pub power: u32,
    /// How long it takes at that power, where that is known.
    pub time: Option<Duration>,
    /// Whether it is done in time; `None` where there is no limit.
    pub in_time: Option<bool>,
}

impl PowerChoice {
    /// Whether all that moves has a place, and nothing says that it comes too late.
    pub fn is_good(&self) -> bool {
        self.lacking == 0 && self.in_time != Some(false)
    }
}

impl Explained {
    /// Chooses the lowest power at which the change finishes `within` a time, [`MARGIN`] included; `only`
    /// is the power that was asked for. If none is fast enough, it is the fastest; without a limit or a
    /// known time, it is `default`.
    pub fn choose_power(
        &self,
        default: u32,
        only: Option<u32>,
        within: Option<Duration>,
    ) -> PowerChoice {
        let plan = &self.work.plan;
        let unplaced = plan.unplaced.iter().filter(|u| u.lack != Lack::Copy);
        let lacking = unplaced.map(|u| u.aus).sum::<u64>() * self.work.au_size;
        let known = self.times().into_iter();
        let times: Vec<(u32, Duration)> =
            known.filter_map(|(time, _)| Some((time.power, time.time?))).collect();
        let nothing = plan.moves.is_empty() && lacking == 0;
        let time_at = |power: u32| match nothing {
            true => Some(Duration::ZERO),
            false => times.iter().find(|(p, _)| *p == power).map(|(_, time)| *time),
        };
        let Some(limit) = within else {
            return PowerChoice { lacking, power: default, time: time_at(default), in_time: None };
        };
        let power = chosen(&times, only, limit).unwrap_or(only.unwrap_or(default));
        let time = time_at(power);
        PowerChoice { lacking, power, time, in_time: Some(time.is_some_and(|t| holds(t, limit))) }
    }
}

fn holds(time: Duration, limit: Duration) -> bool {
    time.mul_f64(MARGIN) <= limit
}

/// The first of the ascending powers that is fast enough, or else the fastest; `None` if no permitted
/// power has a known time.
fn chosen(times: &[(u32, Duration)], only: Option<u32>, limit: Duration) -> Option<u32> {
    let may = times.iter().filter(|(power, _)| only.is_none_or(|only| only == *power));
    let in_time = may.clone().find(|(_, time)| holds(*time, limit));
    in_time.or_else(|| may.min_by_key(|(_, time)| *time)).map(|(power, _)| *power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_power_that_is_in_time_is_chosen() {
        let times = [(1, 400), (4, 200), (11, 100)];
        let times = times.map(|(power, seconds)| (power, Duration::from_secs(seconds)));
        let at = |seconds, only| chosen(&times, only, Duration::from_secs(seconds));
        assert_eq!(at(1000, None), Some(1));
        assert_eq!(at(231, None), Some(4), "with what is left for surprises");
        assert_eq!(at(229, None), Some(11));
        assert_eq!(at(50, None), Some(11), "none is in time: the fastest");
        assert_eq!(at(1000, Some(11)), Some(11));
        assert_eq!(at(1000, Some(2)), None, "no time is known for it");
        assert_eq!(chosen(&[], None, Duration::from_secs(1)), None);
    }
}
