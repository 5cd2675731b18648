//! The order in which a scan visits row groups, and whether its rows come out sorted then.

use std::sync::Arc;

use cellar_format::Header;
use cellar_format::header::{Bounds, Order};

use crate::segment::Segment;

/// The place of a row group in the order of a column: lower comes first.
pub(crate) fn rank(header: &Header, column: usize, greatest: bool) -> (Vec<u8>, i128) {
    match (header.entries.get(column).map(|entry| entry.bounds), greatest) {
        (Some(Bounds::Numbers { max, .. }), true) => (Vec::new(), max.saturating_neg()),
        (Some(Bounds::Numbers { min, .. }), false) => (Vec::new(), min),
        (Some(Bounds::Strings { max, .. }), true) => {
            let mut turned: Vec<u8> = max.bytes().iter().map(|byte| !byte).collect();
            turned.push(u8::MAX);
            (turned, 0)
        }
        (Some(Bounds::Strings { min, .. }), false) => (min.bytes().to_vec(), 0),
        _ => (Vec::new(), i128::MAX),
    }
}

/// The order of a column's values in all rows of some segments, if the row groups with the least values
/// come first ([`Request::first`](crate::Request::first)).
pub fn order_of(segments: &[Arc<Segment>], column: usize) -> Order {
    let mut headers: Vec<&Header> = segments.iter().flat_map(|segment| segment.headers()).collect();
    let own = headers.iter().map(|header| header.entries.get(column).map(|entry| entry.order));
    let own = own.min().flatten().unwrap_or(Order::Any);
    if own == Order::Any {
        return Order::Any;
    }
    headers.sort_by_cached_key(|header| rank(header, column, false));
    let between = headers.windows(2).map(|pair| between(pair[0], pair[1], column));
    between.min().map_or(own, |between| between.min(own))
}

/// The order between the last value of one row group and the first of another, each sorted in itself.
fn between(one: &Header, other: &Header, column: usize) -> Order {
    match (one.entries[column].bounds, other.entries[column].bounds) {
        (Bounds::Numbers { max, .. }, Bounds::Numbers { min, .. }) => Order::of(&[max, min]),
        // A truncated string may be any value with that prefix.
        (Bounds::Strings { max, .. }, Bounds::Strings { min, .. }) => match max.is_whole() {
            true if max.bytes() < min.bytes() => Order::Strict,
            true if max.bytes() == min.bytes() => Order::Ascending,
            false if max.is_before(min.bytes()) => Order::Strict,
            _ => Order::Any,
        },
        _ => Order::Any,
    }
}
