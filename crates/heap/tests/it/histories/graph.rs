//! The graph of who depends on whom, and its cycles.
//!
//! Each cycle that is searched for contradicts itself. Whoever writes over (ww) or reads (wr) what another one
//! has written commits after it, and so does who writes over what another one holds locked (rw, locked). Who
//! writes over what another one has read at a point (rw, at a point) commits after that point, and therefore
//! after all that was seen at it. So there is no cycle in which each rw at a point comes directly behind a ww
//! or wr. Write skew, in which two of them follow each other, is allowed.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::history::Finding;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    Ww,
    Wr,
    RwLocked,
    RwAtPoint,
}

/// `to` depends on `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub why: Why,
    pub key: u8,
}

/// One edge, or two of which the second is a rw at a point: who is at its end committed after who is at its
/// beginning.
type Way = Vec<Edge>;

#[derive(Default)]
pub struct Graph {
    edges: BTreeSet<Edge>,
    /// How many are transactions; the others are statements.
    transactions: usize,
}

impl Graph {
    pub fn new(transactions: usize) -> Graph {
        Graph { edges: BTreeSet::new(), transactions }
    }

    pub fn add(&mut self, edge: Edge) {
        self.edges.insert(edge);
    }

    /// A cycle of each set of transactions that depend on each other, of the simplest kind that there is.
    pub fn cycles(&self) -> Vec<Finding> {
        let single = |keep: fn(Why) -> bool| -> Vec<Way> {
            self.edges.iter().filter(|edge| keep(edge.why)).map(|edge| vec![*edge]).collect()
        };
        let mut by_begin = HashMap::<usize, Vec<Edge>>::new();
        for edge in self.edges.iter().filter(|edge| edge.why == Why::RwAtPoint) {
            by_begin.entry(edge.from).or_default().push(*edge);
        }
        let seen = |why| matches!(why, Why::Ww | Why::Wr);
        let mut all = single(|why| why != Why::RwAtPoint);
        for first in self.edges.iter().filter(|edge| seen(edge.why)) {
            let then = by_begin.get(&first.to).into_iter().flatten();
            all.extend(then.map(|second| vec![*first, *second]));
        }
        for ways in [single(|why| why == Why::Ww), single(seen), all] {
            let found = self.cycles_of(&ways);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn cycles_of(&self, ways: &[Way]) -> Vec<Finding> {
        let mut out = HashMap::<usize, Vec<&Way>>::new();
        for way in ways {
            out.entry(way[0].from).or_default().push(way);
        }
        components(&out)
            .iter()
            .filter_map(|set| shortest(&out, set))
            .map(|c| self.tell(&c))
            .collect()
    }

    fn tell(&self, cycle: &[Edge]) -> Finding {
        let of = |kind: &dyn Fn(Why) -> bool| cycle.iter().filter(|edge| kind(edge.why)).count();
        let rw = of(&|why| matches!(why, Why::RwLocked | Why::RwAtPoint));
        let is_of_one_key = cycle.iter().all(|edge| edge.key == cycle[0].key);
        let name = match (rw, of(&|why| why == Why::Wr)) {
            (0, 0) => "G0",
            (0, _) => "G1c",
            (1, 0) if is_of_one_key => "lost update",
            (1, _) => "G-single",
            _ if of(&|why| why == Why::RwAtPoint) == 0 => "G2 of locks",
            _ => "G-nonadjacent",
        };
        let who = |node: usize| match node < self.transactions {
            true => node.to_string(),
            false => "a statement".into(),
        };
        let told = cycle.iter().map(|Edge { from, to, why, key }| {
            format!("{} -{why:?} of {key}-> {}", who(*from), who(*to))
        });
        Finding { name, story: told.collect::<Vec<_>>().join(", ") }
    }
}

fn end(way: &Way) -> usize {
    way[way.len() - 1].to
}

/// The sets in which each reaches each (Tarjan), without those of one that does not reach itself.
fn components(out: &HashMap<usize, Vec<&Way>>) -> Vec<BTreeSet<usize>> {
    let mut tarjan = Tarjan { out, found: HashMap::new(), stack: Vec::new(), sets: Vec::new() };
    let mut nodes: Vec<usize> = out.keys().copied().collect();
    nodes.sort_unstable();
    for node in nodes {
        if !tarjan.found.contains_key(&node) {
            tarjan.search(node);
        }
    }
    let reaches_itself =
        |node: &usize| out.get(node).is_some_and(|ways| ways.iter().any(|way| end(way) == *node));
    tarjan.sets.retain(|set| set.len() > 1 || set.iter().any(reaches_itself));
    tarjan.sets
}

struct Tarjan<'a> {
    out: &'a HashMap<usize, Vec<&'a Way>>,
    /// By node: its number, the lowest number that it reaches, and whether it is on the stack.
    found: HashMap<usize, (usize, usize, bool)>,
    stack: Vec<usize>,
    sets: Vec<BTreeSet<usize>>,
}

impl Tarjan<'_> {
    fn enter(&mut self, node: usize) {
        let number = self.found.len();
        self.found.insert(node, (number, number, true));
        self.stack.push(node);
    }

    fn lower(&mut self, node: usize, to: usize) {
        let low = &mut self.found.get_mut(&node).unwrap().1;
        *low = (*low).min(to);
    }

    /// Without recursion: a history is long.
    fn search(&mut self, root: usize) {
        let mut calls = vec![(root, 0)];
        self.enter(root);
        while let Some((node, next)) = calls.last_mut() {
            let (node, at) = (*node, *next);
            *next += 1;
            if let Some(way) = self.out.get(&node).and_then(|ways| ways.get(at)) {
                let to = end(way);
                match self.found.get(&to).copied() {
                    None => {
                        self.enter(to);
                        calls.push((to, 0));
                    }
                    Some((number, _, true)) => self.lower(node, number),
                    Some(_) => {}
                }
                continue;
            }
            calls.pop();
            let (number, low, _) = self.found[&node];
            if let Some((caller, _)) = calls.last() {
                self.lower(*caller, low);
            }
            if number == low {
                let place = self.stack.iter().rposition(|other| *other == node).unwrap();
                let set: BTreeSet<usize> = self.stack.drain(place..).collect();
                for member in &set {
                    self.found.get_mut(member).unwrap().2 = false;
                }
                self.sets.push(set);
            }
        }
    }
}

/// The shortest cycle within a set.
fn shortest(out: &HashMap<usize, Vec<&Way>>, set: &BTreeSet<usize>) -> Option<Vec<Edge>> {
    // A large set has short cycles everywhere.
    let cycles = set.iter().take(50).filter_map(|from| cycle_from(out, set, *from));
    cycles.min_by_key(Vec::len)
}

fn cycle_from(
    out: &HashMap<usize, Vec<&Way>>,
    set: &BTreeSet<usize>,
    from: usize,
) -> Option<Vec<Edge>> {
    let mut came = HashMap::<usize, &Way>::new();
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        for way in out.get(&node).into_iter().flatten() {
            let to = end(way);
            if !set.contains(&to) || came.contains_key(&to) {
                continue;
            }
            came.insert(to, way);
            next.push_back(to);
        }
        if came.contains_key(&from) {
            break;
        }
    }
    let (mut at, mut ways) = (from, Vec::new());
    loop {
        let way = came.get(&at)?;
        ways.push(*way);
        at = way[0].from;
        if at == from {
            break;
        }
    }
    Some(ways.into_iter().rev().flatten().copied().collect())
}
