//! A unified diff as table rows: unified or side by side.

/// Kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// Context.
    Same,
    /// Added.
    Added,
    /// Removed.
    Removed,
    /// Hunk header.
    Hunk,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) sign: Sign,
    /// Line numbers before and after.
    pub(super) old: Option<usize>,
    pub(super) new: Option<usize>,
    pub(super) text: String,
}

impl Line {
    /// Its CSS class.
    pub(super) fn class(&self) -> &'static str {
        match self.sign {
            Sign::Same => "same",
            Sign::Added => "added",
            Sign::Removed => "removed",
            Sign::Hunk => "hunk",
        }
    }

    /// Its sign.
    pub(super) fn mark(&self) -> &'static str {
        match self.sign {
            Sign::Added => "+",
            Sign::Removed => "-",
            Sign::Same | Sign::Hunk => "",
        }
    }
}

/// Two lines side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) left: Option<Line>,
    pub(super) right: Option<Line>,
}

/// The lines of a diff, without its head.
pub(super) fn lines(diff: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let (mut old, mut new) = (0, 0);
    for text in diff.lines().skip_while(|line| !line.starts_with("@@")) {
        if let Some((first_old, first_new)) = hunk(text) {
            (old, new) = (first_old, first_new);
            lines.push(Line {
                sign: Sign::Hunk,
                old: None,
                new: None,
                text: text.to_owned(),
            });
            continue;
        }
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (Sign::Added, rest),
            Some(("-", rest)) => (Sign::Removed, rest),
            Some((_, rest)) => (Sign::Same, rest),
            None => (Sign::Same, ""),
        };
        lines.push(Line {
            sign,
            old: (sign != Sign::Added).then_some(old),
            new: (sign != Sign::Removed).then_some(new),
            text: rest.to_owned(),
        });
        old += usize::from(sign != Sign::Added);
        new += usize::from(sign != Sign::Removed);
    }
    lines
}

/// Start of a hunk, before and after: `@@ -3,4 +3,6 @@`.
fn hunk(text: &str) -> Option<(usize, usize)> {
    let mut words = text.strip_prefix("@@ ")?.split(' ');
    let mut number = |sign: char| {
        let word = words.next()?.strip_prefix(sign)?;
        word.split(',').next()?.parse().ok()
    };
    Some((number('-')?, number('+')?))
}

/// The same side by side: removed lines beside added ones.
pub(super) fn pairs(lines: &[Line]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        if matches!(first.sign, Sign::Same | Sign::Hunk) {
            pairs.push(Pair {
                left: Some(first.clone()),
                right: Some(first.clone()),
            });
            rest = &rest[1..];
            continue;
        }
        let count =
            |lines: &[Line], sign: Sign| lines.iter().take_while(|it| it.sign == sign).count();
        let removed = count(rest, Sign::Removed);
        let added = count(&rest[removed..], Sign::Added);
        let (left, right) = rest[..removed + added].split_at(removed);
        pairs.extend((0..removed.max(added)).map(|index| Pair {
            left: left.get(index).cloned(),
            right: right.get(index).cloned(),
        }));
        rest = &rest[removed + added..];
    }
    pairs
}

/// Number of added and removed lines.
pub(super) fn count(lines: &[Line]) -> (usize, usize) {
    let of = |sign: Sign| lines.iter().filter(|line| line.sign == sign).count();
    (of(Sign::Added), of(Sign::Removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a (Kind)\n+++ a (Kind)\n@@ -3,4 +3,5 @@\n spec:\n-  a: 1\n-  b: 2\n+  a: 2\n   c: 3\n+  d: 4\n";

    #[test]
    fn lines_have_the_numbers_of_both_sides() {
        let seen: Vec<_> = lines(DIFF)
            .into_iter()
            .map(|line| (line.mark(), line.old, line.new, line.text))
            .collect();
        let text = str::to_owned;
        let expected = [
            ("", None, None, text("@@ -3,4 +3,5 @@")),
            ("", Some(3), Some(3), text("spec:")),
            ("-", Some(4), None, text("  a: 1")),
            ("-", Some(5), None, text("  b: 2")),
            ("+", None, Some(4), text("  a: 2")),
            ("", Some(6), Some(5), text("  c: 3")),
            ("+", None, Some(6), text("  d: 4")),
        ];
        assert_eq!(seen, expected);
        assert_eq!(count(&lines(DIFF)), (2, 2));
    }

    #[test]
    fn removed_lines_are_paired_with_added_lines() {
        let pairs = pairs(&lines(DIFF));
        let text = |line: &Option<Line>| line.as_ref().map(|line| line.text.trim().to_owned());
        let seen: Vec<_> = pairs[2..]
            .iter()
            .map(|it| (text(&it.left), text(&it.right)))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            (some("a: 1"), some("a: 2")),
            (some("b: 2"), None),
            (some("c: 3"), some("c: 3")),
            (None, some("d: 4")),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn diff_without_changes_has_no_lines() {
        assert_eq!(lines("--- a\n+++ a\n(no changes)\n"), []);
        assert_eq!(lines(""), []);
    }
}
