//! Rows about waits.

use cellar_wait::{Event, EventTotals, Kind, SessionView, WaitState, Waits};

use super::row::view;

const NANOS_PER_MICRO: u64 = 1_000;
const NANOS_PER_CENTI: u64 = 10_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

view! {
    /// A wait event that this version knows
    VEventName = "v$event_name" {
        number: u32 = "event#", "Number of the event in this version";
        id: u32 = "event_id", "Identifier, the same in every version";
        name: &'static str = "name", "Name";
        parameter1: Option<&'static str> = "parameter1", "What p1 is";
        parameter2: Option<&'static str> = "parameter2", "What p2 is";
        parameter3: Option<&'static str> = "parameter3", "What p3 is";
        class_id: u32 = "wait_class_id", "Identifier of the class";
        class_number: u32 = "wait_class#", "Number of the class";
        class: &'static str = "wait_class", "Class";
    }
}

view! {
    /// What was waited for since the start, by event
    VSystemEvent = "v$system_event" {
        event: &'static str = "event", "Name";
        total_waits: u64 = "total_waits", "Waits that ended";
        total_timeouts: u64 = "total_timeouts", "Those of them whose time was up";
        time_waited: u64 = "time_waited", "Time of all waits in cs";
        average_wait: f64 = "average_wait", "Mean wait in cs";
        time_waited_micro: u64 = "time_waited_micro", "Time of all waits in us";
        total_waits_fg: u64 = "total_waits_fg", "Waits of user sessions";
        total_timeouts_fg: u64 = "total_timeouts_fg", "Those of them whose time was up";
        time_waited_fg: u64 = "time_waited_fg", "Time of user sessions' waits in cs";
        average_wait_fg: Option<f64> = "average_wait_fg", "Mean wait of user sessions in cs";
        time_waited_micro_fg: u64 = "time_waited_micro_fg", "Time of user sessions' waits in us";
        id: u32 = "event_id", "Identifier, the same in every version";
        class_id: u32 = "wait_class_id", "Identifier of the class";
        class_number: u32 = "wait_class#", "Number of the class";
        class: &'static str = "wait_class", "Class";
        max_wait_micro: u64 = "max_wait_micro", "Longest wait in us";
        p50_micro: Option<f64> = "p50_micro", "Half of the waits were not longer, in us, to 6.25 %";
        p99_micro: Option<f64> = "p99_micro", "99 % of the waits were not longer, in us, to 6.25 %";
    }
}

view! {
    /// How long the waits for an event took, in buckets of powers of two
    VEventHistogramMicro = "v$event_histogram_micro" {
        number: u32 = "event#", "Number of the event in this version";
        event: &'static str = "event", "Name";
        wait_time_micro: u64 = "wait_time_micro",
            "The bucket holds waits below this many us that are in no smaller one; the last all others";
        wait_count: u64 = "wait_count", "Waits in the bucket";
        wait_time_format: String = "wait_time_format", "The bound for people";
    }
}

view! {
    /// What each open session has waited for, by event
    VSessionEvent = "v$session_event" {
        sid: u32 = "sid", "Number of the session";
        event: &'static str = "event", "Name";
        total_waits: u64 = "total_waits", "Waits that ended";
        total_timeouts: u64 = "total_timeouts", "Those of them whose time was up";
        time_waited: u64 = "time_waited", "Time of all waits in cs";
        average_wait: f64 = "average_wait", "Mean wait in cs";
        max_wait: u64 = "max_wait", "Longest wait in cs";
        time_waited_micro: u64 = "time_waited_micro", "Time of all waits in us";
        id: u32 = "event_id", "Identifier, the same in every version";
        class_id: u32 = "wait_class_id", "Identifier of the class";
        class_number: u32 = "wait_class#", "Number of the class";
        class: &'static str = "wait_class", "Class";
    }
}

view! {
    /// What each session, or a helper of it, waits for now or waited for last
    VSessionWait = "v$session_wait" {
        sid: u32 = "sid", "Number of the session";
        helper: u32 = "helper", "0 for the session itself, else one of its helpers";
        seq: u64 = "seq#", "Counts the waits";
        event: Option<&'static str> = "event", "Name";
        p1_text: Option<&'static str> = "p1text", "What p1 is";
        p1: Option<u64> = "p1", "First parameter";
        p2_text: Option<&'static str> = "p2text", "What p2 is";
        p2: Option<u64> = "p2", "Second parameter";
        p3_text: Option<&'static str> = "p3text", "What p3 is";
        p3: Option<u64> = "p3", "Third parameter";
        class_id: Option<u32> = "wait_class_id", "Identifier of the class";
        class_number: Option<u32> = "wait_class#", "Number of the class";
        class: Option<&'static str> = "wait_class", "Class";
        wait_time: Option<i64> = "wait_time", "0 while it waits; else the last wait in cs, -1 below 1 cs";
        seconds_in_wait: Option<u64> = "seconds_in_wait", "Seconds of the present wait";
        state: Option<&'static str> = "state",
            "WAITING, WAITED SHORT TIME (below 1 cs), WAITED KNOWN TIME";
        wait_time_micro: Option<u64> = "wait_time_micro", "Present wait so far, or the last one, in us";
        time_since_last_wait_micro: Option<u64> = "time_since_last_wait_micro",
            "Since the last wait ended, in us; 0 while it waits";
    }
}

/// The rows of `v$event_name`.
pub fn event_name() -> impl Iterator<Item = VEventName> {
    Event::all().map(|event| {
        let [parameter1, parameter2, parameter3] = event.def().parameters.map(meaning);
        VEventName {
            number: u32::from(event.number()),
            id: event.id(),
            name: event.name(),
            parameter1,
            parameter2,
            parameter3,
            class_id: event.class().id(),
            class_number: u32::from(event.class().number()),
            class: event.class().name(),
        }
    })
}

/// The rows of `v$system_event`.
pub fn system_event(waits: &Waits) -> impl Iterator<Item = VSystemEvent> {
    waits.totals().into_iter().map(|total| system_event_row(&total))
}

fn system_event_row(total: &EventTotals) -> VSystemEvent {
    let event = total.event;
    VSystemEvent {
        event: event.name(),
        total_waits: total.count,
        total_timeouts: total.timeouts,
        time_waited: total.nanos / NANOS_PER_CENTI,
        average_wait: mean(total.nanos, total.count).unwrap_or(0.0),
        time_waited_micro: total.nanos / NANOS_PER_MICRO,
        total_waits_fg: total.foreground_count,
        total_timeouts_fg: total.foreground_timeouts,
        time_waited_fg: total.foreground_nanos / NANOS_PER_CENTI,
        average_wait_fg: mean(total.foreground_nanos, total.foreground_count),
        time_waited_micro_fg: total.foreground_nanos / NANOS_PER_MICRO,
        id: event.id(),
        class_id: event.class().id(),
        class_number: u32::from(event.class().number()),
        class: event.class().name(),
        max_wait_micro: total.max / NANOS_PER_MICRO,
        p50_micro: total.histogram.percentile(50.0).map(micros),
        p99_micro: total.histogram.percentile(99.0).map(micros),
    }
}

/// The rows of `v$event_histogram_micro`: the buckets up to the longest wait of each event.
pub fn event_histogram_micro(waits: &Waits) -> impl Iterator<Item = VEventHistogramMicro> {
    waits.totals().into_iter().flat_map(|total| {
        let buckets: Vec<(u64, u64)> = total.histogram.micro_buckets().collect();
        let used = buckets.iter().rposition(|(_, count)| *count > 0).map_or(0, |last| last + 1);
        buckets.into_iter().take(used).map(move |(bound, count)| VEventHistogramMicro {
            number: u32::from(total.event.number()),
            event: total.event.name(),
            wait_time_micro: bound,
            wait_count: count,
            wait_time_format: micros_for_people(bound),
        })
    })
}

/// The rows of `v$session_event`.
pub fn session_event(waits: &Waits) -> impl Iterator<Item = VSessionEvent> {
    waits.session_totals().into_iter().map(|total| VSessionEvent {
        sid: total.sid,
        event: total.event.name(),
        total_waits: total.count,
        total_timeouts: total.timeouts,
        time_waited: total.nanos / NANOS_PER_CENTI,
        average_wait: mean(total.nanos, total.count).unwrap_or(0.0),
        max_wait: total.max / NANOS_PER_CENTI,
        time_waited_micro: total.nanos / NANOS_PER_MICRO,
        id: total.event.id(),
        class_id: total.event.class().id(),
        class_number: u32::from(total.event.class().number()),
        class: total.event.class().name(),
    })
}

/// The rows of `v$session_wait` at `now`, on the clock that the waits were given.
pub fn session_wait(waits: &Waits, now: u64) -> impl Iterator<Item = VSessionWait> {
    waits.sessions().into_iter().map(move |session| {
        let wait = WaitColumns::of(&session, now);
        VSessionWait {
            sid: session.sid,
            helper: session.helper,
            seq: session.seq,
            event: wait.event.map(Event::name),
            p1_text: wait.text(0),
            p1: wait.p(0),
            p2_text: wait.text(1),
            p2: wait.p(1),
            p3_text: wait.text(2),
            p3: wait.p(2),
            class_id: wait.event.map(|event| event.class().id()),
            class_number: wait.event.map(|event| u32::from(event.class().number())),
            class: wait.event.map(|event| event.class().name()),
            wait_time: wait.wait_time,
            seconds_in_wait: wait.seconds_in_wait,
            state: wait.state,
            wait_time_micro: wait.wait_time_micro,
            time_since_last_wait_micro: wait.time_since_last_wait_micro,
        }
    })
}

/// What `v$session` and `v$session_wait` tell about a wait.
#[derive(Default)]
pub(crate) struct WaitColumns {
    pub(crate) event: Option<Event>,
    p: [u64; 3],
    pub(crate) wait_time: Option<i64>,
    pub(crate) seconds_in_wait: Option<u64>,
    pub(crate) state: Option<&'static str>,
    pub(crate) wait_time_micro: Option<u64>,
    pub(crate) time_since_last_wait_micro: Option<u64>,
}

impl WaitColumns {
    pub(crate) fn of(session: &SessionView, now: u64) -> WaitColumns {
        let empty = WaitColumns { event: session.event, p: session.p, ..WaitColumns::default() };
        match session.state {
            WaitState::NeverWaited => empty,
            WaitState::Waiting { since } => {
                let nanos = now.saturating_sub(since);
                WaitColumns {
                    wait_time: Some(0),
                    seconds_in_wait: Some(nanos / NANOS_PER_SECOND),
                    state: Some("WAITING"),
                    wait_time_micro: Some(nanos / NANOS_PER_MICRO),
                    time_since_last_wait_micro: Some(0),
                    ..empty
                }
            }
            WaitState::Waited { nanos, ended, .. } => {
                let short = nanos < NANOS_PER_CENTI;
                let centis = i64::try_from(nanos / NANOS_PER_CENTI).unwrap_or(i64::MAX);
                WaitColumns {
                    wait_time: Some(if short { -1 } else { centis }),
                    seconds_in_wait: Some(0),
                    state: Some(if short { "WAITED SHORT TIME" } else { "WAITED KNOWN TIME" }),
                    wait_time_micro: Some(nanos / NANOS_PER_MICRO),
                    time_since_last_wait_micro: Some(now.saturating_sub(ended) / NANOS_PER_MICRO),
                    ..empty
                }
            }
        }
    }

    pub(crate) fn text(&self, at: usize) -> Option<&'static str> {
        self.event.and_then(|event| meaning(event.def().parameters[at]))
    }

    /// A parameter without a meaning has no value either.
    pub(crate) fn p(&self, at: usize) -> Option<u64> {
        self.text(at).map(|_| self.p[at])
    }
}

/// `TYPE` of a session.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "USER",
        Kind::Background => "BACKGROUND",
    }
}

fn meaning(parameter: &'static str) -> Option<&'static str> {
    (!parameter.is_empty()).then_some(parameter)
}

#[expect(clippy::cast_precision_loss, reason = "a mean or a duration for people")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_MICRO as f64
}

/// The mean in cs, to a hundredth as Oracle shows it.
#[expect(clippy::cast_precision_loss, reason = "a mean or a duration for people")]
fn mean(nanos: u64, count: u64) -> Option<f64> {
    let hundredths = nanos.checked_div(count)? as f64 / (NANOS_PER_CENTI / 100) as f64;
    Some(hundredths.round() / 100.0)
}

/// A power of two of microseconds as people say it, with 1024 for 1000 as Oracle does.
fn micros_for_people(bound: u64) -> String {
    let (number, unit) = match bound {
        0..1_024 => (bound, "microsecond"),
        1_024..1_048_576 => (bound / 1_024, "millisecond"),
        _ => (bound / 1_048_576, "second"),
    };
    if unit == "second" && number >= 60 {
        let (minutes, seconds) = (number / 60, number % 60);
        return format!("{minutes} min {seconds} s");
    }
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_said_as_people_say_them() {
        let said = [1, 512, 1_024, 1 << 19, 1 << 20, 1 << 25, 1 << 26].map(micros_for_people);
        let expected = [
            "1 microsecond",
            "512 microseconds",
            "1 millisecond",
            "512 milliseconds",
            "1 second",
            "32 seconds",
            "1 min 4 s",
        ];
        assert_eq!(said, expected);
    }
}
