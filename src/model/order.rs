//! Sorting that takes little code: the standard library makes a stable sort of its own for
//! each type, of 7 KB. Here one sorts the places of things, whatever they are.

use std::cmp::Ordering;

/// Puts things into an order. Equal ones stay in theirs.
pub trait InOrder<T> {
    /// By what `compare` says of two.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// By a key, which is asked for once for each.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);

    /// By the type's own order.
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let places = sorted(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        arrange(self, places);
    }

    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        let keys: Vec<K> = self.iter().map(key).collect();
        let places = sorted(keys.len(), &mut |a, b| keys[a].cmp(&keys[b]));
        arrange(self, places);
    }
}

/// The places of so many things, in the order of the things.
fn sorted(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

/// Moves to each place what is to stand there: the thing that was at `places[place]`. Each
/// round of places that exchange their things is gone through once.
fn arrange<T>(things: &mut [T], mut places: Vec<usize>) {
    for start in 0..things.len() {
        let mut at = start;
        while places[at] != start {
            let from = std::mem::replace(&mut places[at], at);
            things.swap(at, from);
            at = from;
        }
        places[at] = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that it sorts as the standard library does, whatever the length.
    #[test]
    fn as_the_library() {
        for count in 0..200_u32 {
            let mut things: Vec<(u32, u32)> =
                (0..count).map(|at| (at.wrapping_mul(2_654_435_761) % 17, at)).collect();
            let mut expected = things.clone();
            expected.sort_by_key(|(key, _)| *key);
            let mut by_key = things.clone();
            by_key.order_by_key(|(key, _)| *key);
            assert_eq!(by_key, expected);
            things.order_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(things, expected);
            things.reverse();
            things.order();
            expected.sort();
            assert_eq!(things, expected);
        }
    }
}
