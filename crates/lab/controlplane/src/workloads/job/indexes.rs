//! Sets of completion indexes in the format of a Job's status: `1,3-5,7`.

use std::fmt;

/// Indexes as ordered ranges that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Indexes {
    ranges: Vec<(i32, i32)>,
}

impl Indexes {
    /// Parses a list, up to the number of completions. Invalid parts are skipped, as upstream does:
    /// only the controller writes the status.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let read = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
            (first < completions).then(|| (first, last.min(completions - 1)))
        };
        Self::normal(text.split(',').filter_map(read).collect())
    }

    /// Sorts ranges and merges adjacent ones.
    fn normal(mut ranges: Vec<(i32, i32)>) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut joined: Vec<(i32, i32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        Self { ranges: joined }
    }

    /// The union of both sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::normal([self.ranges.as_slice(), &other.ranges].concat())
    }

    /// The number of indexes.
    pub(super) fn len(&self) -> i32 {
        self.ranges
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }

    /// Whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether an index is one of them.
    pub(super) fn contains(&self, index: i32) -> bool {
        let place = self.ranges.partition_point(|(_, last)| *last < index);
        self.ranges
            .get(place)
            .is_some_and(|(first, _)| *first <= index)
    }

    /// The number of common indexes.
    pub(super) fn common(&self, other: &Self) -> i32 {
        self.len() + other.len() - self.union(other).len()
    }

    /// The first indexes below `completions` that are not in the set.
    pub(super) fn first_missing(&self, completions: i32, count: usize) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (first, last) in self
            .ranges
            .iter()
            .copied()
            .chain([(completions, completions)])
        {
            let gap = (next..first.min(completions)).take(count - missing.len());
            missing.extend(gap);
            next = next.max(last.saturating_add(1));
        }
        missing
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        Self::normal(indexes.into_iter().map(|index| (index, index)).collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                // Two consecutive indexes are listed, not written as a range.
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
