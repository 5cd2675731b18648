//! A map in layers: changes since it was last shared are in the top layer; the layers below are shared and
//! never change. So sharing needs no copy. A layer that reaches half the size of the one below is merged into
//! it, and each entry is moved only a few times in all.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;
use std::sync::Arc;

/// `None`: what a lower layer has is gone.
type Layer<K, V> = BTreeMap<K, Option<V>>;

/// A map in layers.
pub(super) struct Layers<K, V> {
    /// The lowest first.
    shared: Vec<Arc<Layer<K, V>>>,
    top: Layer<K, V>,
}

impl<K, V> Default for Layers<K, V> {
    fn default() -> Layers<K, V> {
        Layers { shared: Vec::new(), top: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Layers<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        let mut layers = self.downwards();
        layers.find_map(|layer| layer.get(key)).and_then(Option::as_ref)
    }

    /// Gives a key this value, or none. Returns what it had.
    pub fn set(&mut self, key: K, value: Option<V>) -> Option<V> {
        if self.shared.is_empty() && value.is_none() {
            return self.top.remove(&key).flatten();
        }
        if let Some(here) = self.top.get_mut(&key) {
            return std::mem::replace(here, value);
        }
        let before = self.get(&key).cloned();
        self.top.insert(key, value);
        before
    }

    pub fn is_empty(&self) -> bool {
        self.range(Bound::Unbounded, Bound::Unbounded, false).next().is_none()
    }

    /// The entries between these bounds, in the order of the keys or backwards; none where they are the wrong
    /// way round.
    pub fn range(&self, from: Bound<&K>, to: Bound<&K>, backwards: bool) -> Merged<'_, K, V> {
        let is_possible = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from <= to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from < to,
            _ => true,
        };
        let mut layers = Vec::new();
        for layer in self.downwards().filter(|layer| is_possible && !layer.is_empty()) {
            layers.push(Walk::new(layer.range((from, to)), backwards));
        }
        Merged { layers, backwards }
    }

    /// What it is now, which stays as it is.
    pub fn share(&mut self) -> Layers<K, V> {
        if !self.top.is_empty() {
            let mut above = std::mem::take(&mut self.top);
            while let Some(below) = self.shared.pop_if(|below| below.len() < 2 * above.len()) {
                above = merge(below, above);
            }
            if self.shared.is_empty() {
                above.retain(|_, value| value.is_some());
            }
            if !above.is_empty() {
                self.shared.push(Arc::new(above));
            }
        }
        Layers { shared: self.shared.clone(), top: BTreeMap::new() }
    }

    /// All of it.
    pub fn into_map(self) -> impl Iterator<Item = (K, V)> {
        let mut above = self.top;
        for below in self.shared.into_iter().rev() {
            above = merge(below, above);
        }
        above.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    fn downwards(&self) -> impl Iterator<Item = &Layer<K, V>> {
        std::iter::once(&self.top).chain(self.shared.iter().rev().map(|layer| &**layer))
    }
}

fn merge<K: Ord + Clone, V: Clone>(below: Arc<Layer<K, V>>, above: Layer<K, V>) -> Layer<K, V> {
    let mut merged = Arc::try_unwrap(below).unwrap_or_else(|below| (*below).clone());
    merged.extend(above);
    merged
}

/// A layer that is gone through.
struct Walk<'a, K, V> {
    rest: Range<'a, K, Option<V>>,
    next: Option<(&'a K, &'a Option<V>)>,
}

impl<'a, K: Ord, V> Walk<'a, K, V> {
    fn new(range: Range<'a, K, Option<V>>, backwards: bool) -> Walk<'a, K, V> {
        let mut walk = Walk { rest: range, next: None };
        walk.advance(backwards);
        walk
    }

    fn advance(&mut self, backwards: bool) {
        self.next = if backwards { self.rest.next_back() } else { self.rest.next() };
    }
}

/// The entries of all layers: of those of one key that of the uppermost.
pub(super) struct Merged<'a, K, V> {
    /// The uppermost first.
    layers: Vec<Walk<'a, K, V>>,
    backwards: bool,
}

impl<'a, K: Ord, V> Iterator for Merged<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        loop {
            let mut first: Option<(&K, &Option<V>)> = None;
            for (key, value) in self.layers.iter().filter_map(|layer| layer.next) {
                let is_before = first.is_none_or(|(other, _)| match self.backwards {
                    true => key > other,
                    false => key < other,
                });
                if is_before {
                    first = Some((key, value));
                }
            }
            let (key, value) = first?;
            for layer in &mut self.layers {
                if layer.next.is_some_and(|(other, _)| other == key) {
                    layer.advance(self.backwards);
                }
            }
            if let Some(value) = value {
                return Some((key, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is done to a map: a key gets a value or none, or it is shared and perhaps kept.
    #[derive(Clone, Debug)]
    enum Step {
        Set(u8, Option<u16>),
        Share(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..40u8, proptest::option::of(any::<u16>())).prop_map(|(k, v)| Step::Set(k, v)),
            1 => any::<bool>().prop_map(Step::Share),
        ]
    }

    fn bound() -> impl Strategy<Value = Bound<u8>> {
        prop_oneof![
            Just(Bound::Unbounded),
            (0..40u8).prop_map(Bound::Included),
            (0..40u8).prop_map(Bound::Excluded),
        ]
    }

    fn is_same(layers: &Layers<u8, u16>, map: &BTreeMap<u8, u16>) {
        let all = || layers.range(Bound::Unbounded, Bound::Unbounded, false);
        assert!(all().eq(map.iter()));
        assert_eq!(layers.is_empty(), map.is_empty());
        assert!((0..40).all(|key| layers.get(&key) == map.get(&key)));
    }

    proptest! {
        #[test]
        fn it_is_as_a_map_and_what_was_shared_stays(
            steps in proptest::collection::vec(step(), 0..120),
            from in bound(),
            to in bound(),
        ) {
            let (mut layers, mut map, mut kept) = (Layers::default(), BTreeMap::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Set(key, value) => {
                        let before = match value {
                            Some(value) => map.insert(key, value),
                            None => map.remove(&key),
                        };
                        prop_assert_eq!(layers.set(key, value), before);
                    }
                    Step::Share(is_kept) => {
                        let shared = layers.share();
                        if is_kept {
                            kept.push((shared, map.clone()));
                        }
                    }
                }
                is_same(&layers, &map);
            }
            kept.iter().for_each(|(layers, map)| is_same(layers, map));
            let inside = |key: &u8| {
                let is_above = match from {
                    Bound::Included(from) => *key >= from,
                    Bound::Excluded(from) => *key > from,
                    Bound::Unbounded => true,
                };
                is_above && match to {
                    Bound::Included(to) => *key <= to,
                    Bound::Excluded(to) => *key < to,
                    Bound::Unbounded => true,
                }
            };
            let wanted: Vec<_> = map.iter().filter(|(key, _)| inside(key)).collect();
            let (from, to) = (from.as_ref(), to.as_ref());
            prop_assert!(layers.range(from, to, false).eq(wanted.iter().copied()));
            prop_assert!(layers.range(from, to, true).eq(wanted.iter().rev().copied()));
            prop_assert!(layers.into_map().eq(map));
        }
    }

    #[test]
    fn layers_stay_few_though_each_change_is_shared() {
        let (mut layers, mut kept) = (Layers::default(), Vec::new());
        for number in 0..10_000u32 {
            layers.set(number.wrapping_mul(0x9E37_79B9), Some(number));
            kept.push(layers.share());
            kept.truncate(if number % 100 == 0 { 0 } else { 5 });
        }
        assert!(layers.shared.len() <= 14, "{} layers", layers.shared.len());
        assert_eq!(layers.range(Bound::Unbounded, Bound::Unbounded, false).count(), 10_000);
    }
}
