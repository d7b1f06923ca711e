//! HTTP ranges, with which clients resume downloads.

use std::ops::Range;

/// The requested part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole content; also for a malformed range or several ranges.
    Whole,
    /// An inclusive range of bytes.
    Some {
        /// The first byte.
        from: u64,
        /// The last byte.
        to: u64,
        /// The same as indices into memory.
        places: Range<usize>,
    },
    /// A range beyond the end.
    Beyond,
}

/// Parses the `Range` header for content of a size.
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
        // A suffix range: the last bytes.
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
    // Content in memory has offsets that fit in usize.
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
    fn ranges_parse_as_in_rfc_9110(#[case] range: &str, #[case] expected: Option<(u64, u64)>) {
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
    fn ranges_beyond_the_end_are_rejected(#[case] range: &str, #[case] size: u64) {
        assert_eq!(part(Some(range), size), Part::Beyond);
    }
}
