//! A worker of a scan: filters and aggregates the row groups that are there.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use cellar_format::aggregate::columns::each_row;
use cellar_format::aggregate::dense::{Plan, Prepared as PreparedDense};
use cellar_format::bits::BLOCK;
use cellar_format::group;
use cellar_format::kernel::Mask;
use cellar_format::{
    Aggregate, Column, Damage, Filter, Found, Header, Key, Predicate,
    Prepared as PreparedAggregate, Rows, array_of,
};

use crate::error::Error;
use crate::groups::{Known, Part};
use crate::queue::{CurrentPredicates, Morsel, Queue, Ready, Step};
use crate::scan::{Item, Output, Residual};
use crate::segment::Pieces;
use crate::stats::ScanStats;

/// A worker of a scan.
pub struct Worker {
    queue: Arc<Queue>,
    predicates: Option<CurrentPredicates>,
    /// The predicates applied to the last row group, and what each of them found.
    filters: Option<Arc<Vec<Predicate>>>,
    found: Vec<Found>,
    /// Row groups that it has filtered.
    filtered: u64,
    /// What the live filters did in the last one: rows that reached them, and rows they rejected.
    live: (u64, u64),
    groups: Known,
    given: Option<Given>,
    done: bool,
}

/// A live filter that nearly all rows pass is tried only on one row group in so many: its maker tests
/// each row again anyway, and it may help where the data differs.
const ASKED_SELDOM: u64 = 8;
/// Rows to test before that is known.
const ASKED_FIRST: u64 = 32 * BLOCK as u64;

/// Blocks of rows returned at once: few enough that the consumer finds them in the processor's cache and
/// needs little memory.
const PART: usize = 16;

/// A row group whose passing rows have not all been returned yet.
struct Given {
    morsel: Morsel,
    pieces: Pieces,
    rows: Rows,
    /// How many of them have been returned, and how many are to be.
    at: usize,
    count: usize,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.groups.give_up(&self.queue.groups);
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({} groups)", self.groups.len())
    }
}

/// What came of a row group.
enum Outcome {
    Nothing,
    Item(Item),
    /// They are given out.
    Rows(Rows),
    /// Rows pass whose other columns have not been read.
    Rest,
}

impl Worker {
    pub(crate) fn new(queue: Arc<Queue>) -> Worker {
        Worker {
            queue,
            predicates: None,
            filters: None,
            found: Vec::new(),
            filtered: 0,
            live: (0, 0),
            groups: Known::default(),
            given: None,
            done: false,
        }
    }

    pub(crate) async fn next_item(&mut self) -> Option<Result<Item, Error>> {
        if let Some(groups) = self.queue.take_answered() {
            return Some(Ok(self.hand_on(Part::Groups(groups))));
        }
        if let Some(given) = self.given.take() {
            return Some(self.timed(|own| own.give(given)));
        }
        while !self.done {
            match self.queue.step(&mut self.predicates) {
                Step::Done => self.done = true,
                Step::Wait(listener) => {
                    let began = self.queue.env.now();
                    let waits = self.queue.request.waits.as_ref();
                    let wait =
                        waits.map(|(session, event)| session.begin_owned(*event, [0; 3], began.0));
                    // Something may have arrived since, or nothing may be left.
                    listener.await;
                    let now = self.queue.env.now();
                    if let Some(wait) = wait {
                        wait.end(now.0);
                    }
                    let waited = now.since(began).as_nanos() as u64;
                    ScanStats::count(&self.queue.stats.wait_nanos, waited);
                }
                Step::Work(ready) => {
                    let outcome = self.timed(|own| own.work(*ready));
                    match outcome {
                        Ok(Outcome::Item(item)) => return Some(Ok(item)),
                        Ok(_) => yield_now().await,
                        Err(error) => {
                            self.queue.stop();
                            self.done = true;
                            self.groups.give_up(&self.queue.groups);
                            return Some(Err(error));
                        }
                    }
                }
            }
        }
        let queue = Arc::clone(&self.queue);
        let Output::Groups(_, schema) = &queue.request.output else { return None };
        match self.groups.rest(&queue.groups, schema) {
            Ok(part) => Some(Ok(self.hand_on(part?))),
            Err(damage) => Some(Err(Error::Groups(format!("{damage:?}")))),
        }
    }

    /// Counts the time that something takes.
    fn timed<T>(&mut self, what: impl FnOnce(&mut Worker) -> T) -> T {
        let began = self.queue.env.now();
        let out = what(self);
        let took = self.queue.env.now().since(began).as_nanos() as u64;
        ScanStats::count(&self.queue.stats.compute_nanos, took);
        out
    }

    fn hand_on(&self, part: Part) -> Item {
        let (groups, bytes) = match &part {
            Part::Groups(groups) => {
                let states = |(key, states): (&Key, &Vec<_>)| key.len() * 16 + states.len() * 24;
                (groups.len(), groups.iter().map(states).sum())
            }
            Part::Columns(columns) => (columns.rows, columns.bytes()),
        };
        ScanStats::count(&self.queue.stats.returned_rows, groups as u64);
        ScanStats::count(&self.queue.stats.returned_bytes, bytes as u64);
        match part {
            Part::Groups(groups) => Item::Groups(groups),
            Part::Columns(columns) => Item::Columns(columns),
        }
    }

    fn work(&mut self, ready: Ready) -> Result<Outcome, Error> {
        ready.result?;
        let queue = Arc::clone(&self.queue);
        let (morsel, header) = (ready.morsel, queue.header(ready.morsel));
        let conjuncts = self.conjuncts();
        let columns = take_up(&queue, morsel, &ready.pieces)?;
        let is_rest_there = queue.all_columns.iter().all(|column| columns[*column].is_some());
        let outcome = match &queue.request.output {
            Output::Groups(aggregate, schema) if is_rest_there => match queue.plan(aggregate) {
                Some(plan) => self.at_places(&conjuncts, plan, &columns, morsel)?,
                None => self.aggregate(&conjuncts, aggregate, schema, &columns, morsel)?,
            },
            _ => {
                let rows = self.select(&conjuncts, &columns, morsel)?;
                // A row group whose other columns are being read is counted when it comes back.
                if rows.count() == 0 || is_rest_there {
                    self.count(rows.count());
                }
                if rows.count() == 0 {
                    if !is_rest_there {
                        ScanStats::count(&queue.stats.filtered_row_groups, 1);
                    }
                    Outcome::Nothing
                } else if !is_rest_there {
                    Outcome::Rest
                } else {
                    Outcome::Rows(rows)
                }
            }
        };
        drop(columns);
        if matches!(outcome, Outcome::Rest) {
            queue.read_rest(morsel, ready.pieces);
            return Ok(outcome);
        }
        ScanStats::count(&queue.stats.rows, header.rows.into());
        let Outcome::Rows(rows) = outcome else { return Ok(outcome) };
        let count = match queue.request.output {
            Output::Rows { .. } => queue.take_rows(rows.count() as u64) as usize,
            Output::Groups(..) => rows.count(),
        };
        if count == 0 {
            return Ok(Outcome::Nothing);
        }
        let given = Given { morsel, pieces: ready.pieces, rows, at: 0, count };
        self.give(given).map(Outcome::Item)
    }

    /// The next of these rows; the rest is put back for later.
    fn give(&mut self, mut given: Given) -> Result<Item, Error> {
        let queue = Arc::clone(&self.queue);
        let morsel = given.morsel;
        let part = match given.count > 2 * PART * BLOCK {
            true => given.rows.part(given.at, PART),
            false => std::mem::replace(&mut given.rows, Rows::none()),
        };
        let count = part.count().min(given.count - given.at);
        let item = take_up(&queue, morsel, &given.pieces).and_then(|columns| {
            let item = match &queue.request.output {
                Output::Rows { columns: wanted, schema } => {
                    self.rows(&columns, &part, count, wanted, schema)
                }
                Output::Groups(aggregate, schema) => {
                    let header = queue.header(morsel);
                    let groups = each_row(aggregate, header, &columns, &part, schema);
                    groups.map(|groups| self.hand_on(Part::Columns(groups)))
                }
            };
            item.map_err(|damage| queue.segment(morsel).damaged(morsel.position, None, damage))
        });
        given.at += part.count();
        if item.is_err() {
            queue.stop();
            self.done = true;
            self.groups.give_up(&queue.groups);
        } else if given.at < given.count {
            self.given = Some(given);
        }
        item
    }

    /// The predicates that rows must pass, as currently known. Findings about former live filters do not
    /// apply to new ones.
    fn conjuncts(&mut self) -> Arc<Vec<Predicate>> {
        let queue = Arc::clone(&self.queue);
        let conjuncts = queue.current_predicates(&mut self.predicates);
        if !self.filters.as_ref().is_some_and(|before| Arc::ptr_eq(before, &conjuncts)) {
            self.found.truncate(queue.request.conjuncts.len());
            self.filters = Some(Arc::clone(&conjuncts));
        }
        conjuncts
    }

    /// Filters of a row group, without live ones that nearly all rows pass.
    fn filter<'p, 'c, 'a>(
        &mut self,
        conjuncts: &'p [Predicate],
        header: &Header,
        columns: &'c [Option<Column<'a>>],
    ) -> Result<Filter<'p, 'c, 'a>, Damage> {
        let fixed = self.queue.request.conjuncts.len();
        let is_asked = self.filtered.is_multiple_of(ASKED_SELDOM);
        self.filtered += 1;
        let is_out = |at: usize| {
            let found = self.found.get(at).copied().unwrap_or_default();
            let is_idle = found.asked >= ASKED_FIRST && found.passed > found.asked / 8 * 7;
            at >= fixed && is_idle && !is_asked
        };
        Ok(Filter::new(conjuncts, header, columns, &self.found)?.without(is_out))
    }

    /// The rows that pass every filter.
    fn select(
        &mut self,
        conjuncts: &[Predicate],
        columns: &[Option<Column<'_>>],
        morsel: Morsel,
    ) -> Result<Rows, Error> {
        let queue = Arc::clone(&self.queue);
        let header = queue.header(morsel);
        let damaged = |damage: Damage| queue.segment(morsel).damaged(morsel.position, None, damage);
        let mut filter = self.filter(conjuncts, header, columns).map_err(damaged)?;
        let residual = queue.request.residual.as_deref();
        // Rows beyond those wanted need not be found, unless some of these may still be rejected.
        let wanted = if residual.is_some() { u64::MAX } else { queue.rows_left() };
        let all = header.rows as usize;
        let mut rows = match filter.is_all() {
            true if wanted >= all as u64 => Rows::All(all),
            true => Rows::Some((0..wanted as u32).collect()),
            false => {
                let mut rows = Rows::none();
                let mut mask = [0; BLOCK];
                for block in 0..header.blocks() {
                    if rows.count() as u64 >= wanted {
                        break;
                    }
                    if filter.block(block, &mut mask).map_err(damaged)? > 0 {
                        rows.add(block, &mask);
                    }
                }
                rows
            }
        };
        self.learn(filter.found(), rows.count());
        if let Some(residual) = residual
            && rows.count() > 0
        {
            rows = keep_residual(residual, columns, rows, damaged)?;
        }
        Ok(rows)
    }

    /// Records how selective the filters were. After some row groups, earlier counts are halved, so that
    /// a change in the data is noticed.
    fn learn(&mut self, found: &[Found], passed: usize) {
        let live = found.get(self.queue.request.conjuncts.len()..).unwrap_or_default();
        // A filter that is not tried, or that all rows of a row group pass, rejects none.
        let came = live.iter().map(|one| one.asked).max().unwrap_or(0).max(passed as u64);
        let dropped = live.iter().map(|one| one.asked - one.passed).sum();
        self.live = if live.is_empty() { (0, 0) } else { (came, dropped) };
        self.found.resize(found.len(), Found::default());
        for (known, found) in self.found.iter_mut().zip(found) {
            known.asked += found.asked;
            known.passed += found.passed;
            if known.asked > 1 << 20 {
                known.asked /= 2;
                known.passed /= 2;
            }
        }
    }

    /// Counts a row group once all that is wanted of it has been read.
    fn count(&self, passed: usize) {
        let stats = &self.queue.stats;
        ScanStats::count(&stats.live_rows, self.live.0);
        ScanStats::count(&stats.live_dropped_rows, self.live.1);
        self.queue.found(passed);
    }

    /// Hands the rows that pass to `each`, a block at a time: how many they were.
    fn pass(
        &mut self,
        conjuncts: &[Predicate],
        columns: &[Option<Column<'_>>],
        morsel: Morsel,
        mut each: impl FnMut(usize, &Mask, usize) -> Result<(), Damage>,
    ) -> Result<usize, Error> {
        let queue = Arc::clone(&self.queue);
        let header = queue.header(morsel);
        let damaged = |damage: Damage| queue.segment(morsel).damaged(morsel.position, None, damage);
        let mut mask = [0; BLOCK];
        if queue.request.residual.is_some() {
            let rows = self.select(conjuncts, columns, morsel)?;
            for block in 0..header.blocks() {
                let count = rows.mask(block, &mut mask);
                each(block, &mask, count).map_err(damaged)?;
            }
            self.count(rows.count());
            return Ok(rows.count());
        }
        let mut filter = self.filter(conjuncts, header, columns).map_err(damaged)?;
        let mut passed = 0;
        for block in 0..header.blocks() {
            let count = filter.block(block, &mut mask).map_err(damaged)?;
            passed += count;
            each(block, &mask, count).map_err(damaged)?;
        }
        self.learn(filter.found(), passed);
        self.count(passed);
        Ok(passed)
    }

    fn at_places(
        &mut self,
        conjuncts: &[Predicate],
        plan: Arc<Plan>,
        columns: &[Option<Column<'_>>],
        morsel: Morsel,
    ) -> Result<Outcome, Error> {
        let queue = Arc::clone(&self.queue);
        let header = queue.header(morsel);
        let damaged = |damage: Damage| queue.segment(morsel).damaged(morsel.position, None, damage);
        let mut ready = PreparedDense::new(&plan, header, columns).map_err(damaged)?;
        let mut groups = std::mem::take(&mut self.groups);
        let dense = groups.dense(plan, &queue.groups);
        let passed = self.pass(conjuncts, columns, morsel, |block, mask, count| {
            ready.block(block, mask, count, dense);
            Ok(())
        });
        self.groups = groups;
        passed.map(|_| Outcome::Nothing)
    }

    fn aggregate(
        &mut self,
        conjuncts: &[Predicate],
        aggregate: &Aggregate,
        schema: &SchemaRef,
        columns: &[Option<Column<'_>>],
        morsel: Morsel,
    ) -> Result<Outcome, Error> {
        let queue = Arc::clone(&self.queue);
        let header = queue.header(morsel);
        let damaged = |damage: Damage| queue.segment(morsel).damaged(morsel.position, None, damage);
        if self.groups.rows_differ() {
            let rows = self.select(conjuncts, columns, morsel)?;
            self.count(rows.count());
            if rows.count() == 0 {
                return Ok(Outcome::Nothing);
            }
            return Ok(Outcome::Rows(rows));
        }
        let mut ready = PreparedAggregate::new(aggregate, header, columns).map_err(damaged)?;
        let passed = self.pass(conjuncts, columns, morsel, |block, mask, count| {
            ready.block(block, mask, count)
        })?;
        if passed == 0 {
            return Ok(Outcome::Nothing);
        }
        let part = self.groups.take(ready, aggregate, schema, passed).map_err(damaged)?;
        Ok(part.map_or(Outcome::Nothing, |part| Outcome::Item(self.hand_on(part))))
    }

    /// The first `count` of rows.
    fn rows(
        &self,
        columns: &[Option<Column<'_>>],
        rows: &Rows,
        count: usize,
        wanted: &[usize],
        schema: &SchemaRef,
    ) -> Result<Item, Damage> {
        let array = |(column, field): (&usize, &Arc<arrow_schema::Field>)| {
            let column = columns[*column].as_ref();
            array_of(column.expect("all columns are there"), rows, field.data_type())
        };
        let arrays: Vec<ArrayRef> =
            wanted.iter().zip(schema.fields()).map(array).collect::<Result<_, _>>()?;
        let bytes: usize =
            arrays.iter().map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.count()));
        let other = Damage::Field { name: "type of a column", value: 0 };
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
            .map_err(|_| other)?;
        ScanStats::count(&self.queue.stats.returned_rows, count as u64);
        ScanStats::count(&self.queue.stats.returned_bytes, bytes as u64);
        Ok(Item::Rows(batch.slice(0, count)))
    }
}

fn keep_residual(
    residual: &dyn Residual,
    columns: &[Option<Column<'_>>],
    rows: Rows,
    damaged: impl Fn(Damage) -> Error,
) -> Result<Rows, Error> {
    let array = |(column, data_type): &(usize, arrow_schema::DataType)| {
        let column = columns[*column].as_ref().expect("columns of filters are there");
        array_of(column, &rows, data_type)
    };
    let arrays = residual.columns().iter().map(array).collect::<Result<Vec<_>, _>>();
    let kept = residual.keep(arrays.map_err(damaged)?, rows.count()).map_err(Error::Residual)?;
    if kept.len() != rows.count() {
        let text = format!("a filter told of {} rows, asked for {}", kept.len(), rows.count());
        return Err(Error::Residual(text.into()));
    }
    let passes = |at: &usize| kept.is_valid(*at) && kept.value(*at);
    let kept = (0..kept.len()).filter(passes);
    Ok(Rows::Some(kept.map(|at| rows.row(at)).collect()))
}

fn take_up<'p>(
    queue: &Queue,
    morsel: Morsel,
    pieces: &'p Pieces,
) -> Result<Vec<Option<Column<'p>>>, Error> {
    let header = queue.header(morsel);
    let take = |(at, piece): (usize, &'p Option<crate::cache::Piece>)| {
        let Some(piece) = piece else { return Ok(None) };
        match group::column(header, at, piece.bytes(), false) {
            Ok(column) => Ok(Some(column)),
            Err(damage) => Err(queue.segment(morsel).damaged(morsel.position, Some(at), damage)),
        }
    };
    pieces.iter().enumerate().map(take).collect()
}

/// Yields to other tasks.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
