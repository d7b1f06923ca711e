//! Parts of something, as clients ask for them to go on where they stopped.

use std::ops::Range;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything; also when the question makes no sense, or asks for several parts.
    Whole,
    /// From a byte up to and with another.
    Some {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
        /// The same as places in memory.
        places: Range<usize>,
    },
    /// Something that is not there.
    Beyond,
}

/// Reads the header `Range` for something of a size.
pub(super) fn part(range: Option<&str>, size: u64) -> Part {
    let Some(range) = range.and_then(|range| range.trim().strip_prefix("bytes=")) else {
        return Part::Whole;
    };
    let Some((from, to)) = range.split_once('-') else {
        return Part::Whole;
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let (from, to) = match (from, to) {
        // The last so many.
        ("", last) => match number(last) {
            None => return Part::Whole,
            Some(0) => return Part::Beyond,
            Some(last) => (size.saturating_sub(last), size.saturating_sub(1)),
        },
        (from, "") => match number(from) {
            None => return Part::Whole,
            Some(from) => (from, size.saturating_sub(1)),
        },
        (from, to) => match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => (from, to.min(size.saturating_sub(1))),
            _ => return Part::Whole,
        },
    };
    if from >= size {
        return Part::Beyond;
    }
    // What is in memory has places in memory.
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    Part::Some {
        from,
        to,
        places: place(from)..place(to).saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing("", None)]
    #[case::first("bytes=0-0", Some((0, 0)))]
    #[case::inside("bytes=2-5", Some((2, 5)))]
    #[case::from("bytes=7-", Some((7, 9)))]
    #[case::too_far("bytes=5-99", Some((5, 9)))]
    #[case::last("bytes=-3", Some((7, 9)))]
    #[case::more_than_all("bytes=-30", Some((0, 9)))]
    #[case::huge("bytes=1-99999999999999999999999", Some((1, 9)))]
    #[case::several("bytes=0-1,3-4", None)]
    #[case::backwards("bytes=5-2", None)]
    #[case::other_unit("lines=1-2", None)]
    #[case::no_numbers("bytes=a-b", None)]
    #[case::signed("bytes=+1-2", None)]
    fn parts_are_read_as_http_says(#[case] range: &str, #[case] expected: Option<(u64, u64)>) {
        let expected = expected.map_or(Part::Whole, |(from, to)| Part::Some {
            from,
            to,
            places: usize::try_from(from).unwrap()..usize::try_from(to).unwrap() + 1,
        });
        let range = (!range.is_empty()).then_some(range);
        assert_eq!(part(range, 10), expected);
    }

    #[rstest]
    #[case("bytes=10-", 10)]
    #[case("bytes=99-100", 10)]
    #[case("bytes=-0", 10)]
    #[case("bytes=0-", 0)]
    #[case("bytes=-5", 0)]
    fn what_is_not_there_cannot_be_had(#[case] range: &str, #[case] size: u64) {
        assert_eq!(part(Some(range), size), Part::Beyond);
    }
}
