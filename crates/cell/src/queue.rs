//! The row groups that a scan has before it, and those that are being read.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_format::aggregate::dense::Plan;
use cellar_format::aggregate::join;
use cellar_format::{Aggregate, Groups, Header, Predicate, Verdict};
use cellar_io::SharedEnv;
use event_listener::{Event, EventListener};

use crate::cache::Cache;
use crate::error::Error;
use crate::groups::Shared;
use crate::order::rank;
use crate::scan::{DynamicFilter, Output, Request};
use crate::segment::{Pieces, Segment};
use crate::stats::ScanStats;

/// A row group of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Morsel {
    pub segment: usize,
    pub position: usize,
    /// Its number among those of the scan.
    at: usize,
}

/// A row group of which columns have been read.
pub(crate) struct Ready {
    pub morsel: Morsel,
    pub pieces: Pieces,
    pub result: Result<(), Error>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Ready>,
    in_flight: usize,
    /// In an ordered scan: row groups that no worker has taken yet, by number.
    due: BTreeSet<usize>,
}

impl State {
    /// What a worker may take; in an ordered scan, only the next one.
    fn take(&mut self, ordered: bool) -> Option<Ready> {
        if !ordered {
            return self.ready.pop_front();
        }
        let next = *self.due.first()?;
        let at = self.ready.iter().position(|ready| ready.morsel.at == next)?;
        self.due.remove(&next);
        self.ready.remove(at)
    }
}

/// The predicates of the live filters, as of some generation.
pub(crate) struct CurrentPredicates {
    generations: Vec<u64>,
    pub conjuncts: Arc<Vec<Predicate>>,
}

/// What a worker does next.
pub(crate) enum Step {
    Work(Box<Ready>),
    Wait(EventListener),
    Done,
}

/// The shared part of a scan.
pub(crate) struct Queue {
    pub request: Request,
    pub cache: Cache,
    pub stats: Arc<ScanStats>,
    pub env: SharedEnv,
    morsels: Vec<Morsel>,
    next: AtomicUsize,
    state: Mutex<State>,
    changed: Event,
    stopped: AtomicBool,
    /// Rows that are still wanted.
    left: AtomicU64,
    /// Columns of the filters, and all columns, by number.
    pub filter_columns: Vec<usize>,
    pub all_columns: Vec<usize>,
    /// Results computed from headers alone, until a worker takes them.
    answered: Mutex<Option<Groups>>,
    /// Group state that the workers share.
    pub groups: Shared,
    /// Row groups tested by the filters, and those in which no row passed.
    current_predicates: AtomicU64,
    emptied: AtomicU64,
}

fn columns_of(request: &Request) -> (Vec<usize>, Vec<usize>) {
    let mut filter = BTreeSet::new();
    request.conjuncts.iter().for_each(|conjunct| conjunct.columns(&mut filter));
    request.live.iter().for_each(|live| filter.extend(live.columns()));
    if let Some(residual) = &request.residual {
        filter.extend(residual.columns().iter().map(|(column, _)| *column));
    }
    let mut all = filter.clone();
    match &request.output {
        Output::Rows { columns, .. } => all.extend(columns),
        Output::Groups(aggregate, _) => aggregate.columns(&mut all),
    }
    (filter.into_iter().collect(), all.into_iter().collect())
}

impl Queue {
    pub fn new(request: Request, cache: Cache, env: SharedEnv, stats: Arc<ScanStats>) -> Queue {
        let (filter_columns, all_columns) = columns_of(&request);
        let mut morsels = Vec::new();
        let mut answered: Option<Groups> = None;
        for (at, segment) in request.segments.iter().enumerate() {
            for (position, header) in segment.headers().iter().enumerate() {
                let bytes = segment.bytes_of(position, &all_columns);
                ScanStats::count(&stats.eligible_bytes, bytes);
                ScanStats::count(&stats.row_groups, 1);
                let verdict = verdict_of(&request.conjuncts, header);
                if verdict == Verdict::None {
                    ScanStats::count(&stats.saved_bytes, bytes);
                    ScanStats::count(&stats.pruned_row_groups, 1);
                    continue;
                }
                let known = match &request.output {
                    Output::Groups(aggregate, _)
                        if verdict == Verdict::All
                            && request.residual.is_none()
                            && request.live.is_empty() =>
                    {
                        aggregate.of_header(header)
                    }
                    _ => None,
                };
                if let Some(states) = known {
                    ScanStats::count(&stats.header_bytes, bytes);
                    ScanStats::count(&stats.header_row_groups, 1);
                    ScanStats::count(&stats.passed_rows, header.rows.into());
                    join(answered.get_or_insert_default(), Box::default(), states);
                    continue;
                }
                morsels.push(Morsel { segment: at, position, at: 0 });
            }
        }
        if let Some((column, greatest)) = request.first {
            let header =
                |morsel: &Morsel| &request.segments[morsel.segment].headers()[morsel.position];
            morsels.sort_by_cached_key(|morsel| rank(header(morsel), column, greatest));
        }
        morsels.iter_mut().enumerate().for_each(|(at, morsel)| morsel.at = at);
        Queue {
            left: AtomicU64::new(request.limit.unwrap_or(u64::MAX)),
            stopped: AtomicBool::new(request.limit == Some(0)),
            request,
            cache,
            stats,
            env,
            morsels,
            next: AtomicUsize::new(0),
            state: Mutex::default(),
            changed: Event::new(),
            filter_columns,
            all_columns,
            answered: Mutex::new(answered),
            groups: Shared::default(),
            current_predicates: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn segment(&self, morsel: Morsel) -> &Arc<Segment> {
        &self.request.segments[morsel.segment]
    }

    pub fn header(&self, morsel: Morsel) -> &Header {
        &self.segment(morsel).headers()[morsel.position]
    }

    /// How the groups of the row groups that are to be read are summed at places; `None`: they are not.
    pub fn plan(&self, aggregate: &Aggregate) -> Option<Arc<Plan>> {
        self.groups.plan(aggregate, self.morsels.iter().map(|morsel| self.header(*morsel)))
    }

    /// Results computed from headers alone; returned once.
    pub fn take_answered(&self) -> Option<Groups> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the scan: enough is known, or it cannot go on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.changed.notify(usize::MAX);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Claims up to so many of the rows still wanted; returns how many were granted.
    pub fn take_rows(&self, rows: u64) -> u64 {
        if self.request.limit.is_none() {
            return rows;
        }
        let take = |left: u64| Some(left.saturating_sub(rows));
        let left = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).unwrap_or(0);
        if left <= rows {
            self.stop();
        }
        left.min(rows)
    }

    /// Rows that are still wanted.
    pub fn rows_left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// The predicates that rows must pass, as currently known.
    pub fn current_predicates(&self, known: &mut Option<CurrentPredicates>) -> Arc<Vec<Predicate>> {
        let generations = || self.request.live.iter().map(|live| live.generation()).collect();
        if let Some(known) = known
            && known.generations.iter().zip(&self.request.live).all(|(g, l)| *g == l.generation())
        {
            return Arc::clone(&known.conjuncts);
        }
        // Read before the predicates are: a change in between is then noticed at the next call.
        let generations = generations();
        let mut conjuncts = self.request.conjuncts.clone();
        conjuncts.extend(
            self.request.live.iter().flat_map(|live: &Arc<dyn DynamicFilter>| live.predicates()),
        );
        let conjuncts = Arc::new(conjuncts);
        *known = Some(CurrentPredicates { generations, conjuncts: Arc::clone(&conjuncts) });
        conjuncts
    }

    /// Tells how many rows of a row group passed.
    pub fn found(&self, rows: usize) {
        self.current_predicates.fetch_add(1, Ordering::Relaxed);
        self.emptied.fetch_add(u64::from(rows == 0), Ordering::Relaxed);
        ScanStats::count(&self.stats.passed_rows, rows as u64);
    }

    /// Whether to read the filters' columns first and the others only where rows pass. That costs a
    /// second wait, so it must save at least every other row group.
    fn reads_filters_first(&self) -> bool {
        if self.filter_columns.is_empty() || self.filter_columns.len() == self.all_columns.len() {
            return false;
        }
        let (current_predicates, emptied) =
            (self.current_predicates.load(Ordering::Relaxed), self.emptied.load(Ordering::Relaxed));
        current_predicates < 4 || emptied * 2 > current_predicates
    }

    /// Reads ahead as far as it is allowed to, and says what to do next.
    pub fn step(self: &Arc<Self>, known: &mut Option<CurrentPredicates>) -> Step {
        loop {
            self.fill(known);
            let mut state = self.state();
            if self.is_stopped() {
                return Step::Done;
            }
            if let Some(ready) = state.take(self.request.ordered) {
                return Step::Work(Box::new(ready));
            }
            if state.in_flight > 0 {
                return Step::Wait(self.changed.listen());
            }
            if self.next.load(Ordering::Acquire) >= self.morsels.len() {
                return Step::Done;
            }
            // Others have taken all that was ready: read the rest now, or nobody would.
        }
    }

    fn fill(self: &Arc<Self>, known: &mut Option<CurrentPredicates>) {
        loop {
            {
                let mut state = self.state();
                let full = state.in_flight + state.ready.len() >= self.request.depth.max(1);
                if full
                    || self.is_stopped()
                    || self.next.load(Ordering::Acquire) >= self.morsels.len()
                {
                    return;
                }
                // Counted before it is examined, or another worker would consider the scan finished.
                state.in_flight += 1;
            }
            let at = self.next.fetch_add(1, Ordering::AcqRel);
            let mut under_way = UnderWay { queue: Arc::clone(self), done: None, promised: None };
            let Some(morsel) = self.morsels.get(at).copied() else { return };
            self.due(morsel);
            let mut verdict = Verdict::Some;
            if !self.request.live.is_empty() || self.reads_filters_first() {
                verdict = verdict_of(&self.current_predicates(known), self.header(morsel));
                if verdict == Verdict::None {
                    let bytes = self.segment(morsel).bytes_of(morsel.position, &self.all_columns);
                    ScanStats::count(&self.stats.saved_bytes, bytes);
                    ScanStats::count(&self.stats.pruned_row_groups, 1);
                    // Only a live filter can have excluded it: the fixed ones were evaluated before it
                    // got here.
                    ScanStats::count(&self.stats.live_pruned_row_groups, 1);
                    self.state().due.remove(&at);
                    continue;
                }
            }
            // If all rows pass as far as is known, all columns are needed.
            let is_open = verdict == Verdict::Some || self.request.residual.is_some();
            let columns = match is_open && self.reads_filters_first() {
                true if !self.is_cached(morsel) => &self.filter_columns,
                _ => &self.all_columns,
            };
            let pieces = vec![None; self.header(morsel).entries.len()];
            if let Some(ready) = self.read(morsel, columns, pieces, &mut under_way) {
                under_way.done = Some(ready);
            }
        }
    }

    /// In an ordered scan: no later row group is handed out before this one.
    fn due(&self, morsel: Morsel) {
        if self.request.ordered {
            self.state().due.insert(morsel.at);
        }
    }

    fn is_cached(&self, morsel: Morsel) -> bool {
        self.segment(morsel).is_cached(morsel.position, &self.all_columns, &self.cache)
    }

    /// Reads the columns still missing of a row group that is being examined now.
    pub fn read_rest(self: &Arc<Self>, morsel: Morsel, pieces: Pieces) {
        self.state().in_flight += 1;
        self.due(morsel);
        let mut under_way = UnderWay { queue: Arc::clone(self), done: None, promised: None };
        let columns = &self.all_columns;
        if let Some(ready) = self.read(morsel, columns, pieces, &mut under_way) {
            under_way.done = Some(ready);
        }
    }

    /// Takes columns from the cache, or sets out to read them: then `under_way` goes along.
    fn read(
        self: &Arc<Self>,
        morsel: Morsel,
        columns: &[usize],
        mut pieces: Pieces,
        under_way: &mut UnderWay,
    ) -> Option<Ready> {
        let segment = Arc::clone(self.segment(morsel));
        let had: u64 = missing_bytes(&segment, morsel, columns, &pieces);
        let missing = segment.cached(morsel.position, columns, &self.cache, &mut pieces);
        let left = segment.bytes_of(morsel.position, &missing);
        ScanStats::count(&self.stats.cache_bytes, had - left);
        if missing.is_empty() {
            return Some(Ready { morsel, pieces, result: Ok(()) });
        }
        let mut under_way = under_way.take(morsel);
        let queue = Arc::clone(self);
        let task = async move {
            let cache = &queue.cache;
            let read = segment.read(morsel.position, &missing, cache, &mut pieces).await;
            let result = read.map(|(reads, bytes)| {
                ScanStats::count(&queue.stats.reads, reads);
                ScanStats::count(&queue.stats.disk_bytes, bytes);
            });
            under_way.done = Some(Ready { morsel, pieces, result });
            // Dropping it puts it among the ready ones, even if this task ends early.
            drop(under_way);
        };
        self.env.spawn("cell read", Box::pin(task));
        None
    }
}

fn missing_bytes(segment: &Segment, morsel: Morsel, columns: &[usize], pieces: &Pieces) -> u64 {
    let missing: Vec<usize> = columns.iter().copied().filter(|c| pieces[*c].is_none()).collect();
    segment.bytes_of(morsel.position, &missing)
}

/// The verdict of all conjuncts together.
pub(crate) fn verdict_of(conjuncts: &[Predicate], header: &Header) -> Verdict {
    let mut all = Verdict::All;
    for conjunct in conjuncts {
        match conjunct.of_header(header) {
            Verdict::None => return Verdict::None,
            Verdict::Some => all = Verdict::Some,
            Verdict::All => {}
        }
    }
    all
}

/// A row group that is counted as in flight until this goes.
struct UnderWay {
    queue: Arc<Queue>,
    done: Option<Ready>,
    /// For a read: if its task ends before the read does, its rows must not silently go missing.
    promised: Option<Morsel>,
}

impl UnderWay {
    /// Hands the count of this row group to a task; what remains here no longer counts.
    fn take(&mut self, morsel: Morsel) -> UnderWay {
        self.queue.state().in_flight += 1;
        UnderWay { queue: Arc::clone(&self.queue), done: None, promised: Some(morsel) }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let done = self.done.take().or_else(|| {
            let morsel = self.promised?;
            Some(Ready { morsel, pieces: Pieces::new(), result: Err(Error::Stopped) })
        });
        let mut state = self.queue.state();
        state.in_flight -= 1;
        state.ready.extend(done);
        drop(state);
        self.queue.changed.notify(usize::MAX);
    }
}
