//! The glob patterns of Go's `path.Match`, for one label of a host name.

/// Whether a pattern is well-formed and matches: `*`, `?`, `[a-z]`, `[^x]`, and `\` as escape. A
/// malformed pattern matches nothing, as for the kubelet, which drops the error.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to resume when the text after the last star does not match: the star takes one more
    // character.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if t == text.len() => return true,
            None => None,
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(_) => match (element(&pattern, p), text.get(t)) {
                (None, _) => return false,
                (Some((next, test)), Some(c)) if test(*c) => Some(next),
                (Some(_), _) => None,
            },
        };
        match (step, star) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((after, taken))) if taken < text.len() => {
                star = Some((after, taken + 1));
                p = after;
                t = taken + 1;
            }
            (None, _) => return false,
        }
    }
}

type Test<'a> = Box<dyn Fn(char) -> bool + 'a>;

/// One element that matches one character, and where the next begins; `None` if it is malformed.
fn element(pattern: &[char], at: usize) -> Option<(usize, Test<'_>)> {
    match *pattern.get(at)? {
        '?' => Some((at + 1, Box::new(|_| true))),
        '\\' => {
            let c = *pattern.get(at + 1)?;
            Some((at + 2, Box::new(move |other| other == c)))
        }
        '[' => class(pattern, at + 1),
        c => Some((at + 1, Box::new(move |other| other == c))),
    }
}

fn class(pattern: &[char], mut at: usize) -> Option<(usize, Test<'_>)> {
    let negated = pattern.get(at) == Some(&'^');
    if negated {
        at += 1;
    }
    let mut ranges = Vec::new();
    loop {
        if pattern.get(at) == Some(&']') && !ranges.is_empty() {
            break;
        }
        let (low, next) = bound(pattern, at)?;
        at = next;
        let high = if pattern.get(at) == Some(&'-') {
            let (high, next) = bound(pattern, at + 1)?;
            at = next;
            high
        } else {
            low
        };
        ranges.push((low, high));
    }
    let test =
        move |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != negated;
    Some((at + 1, Box::new(test)))
}

/// An end of a range.
fn bound(pattern: &[char], at: usize) -> Option<(char, usize)> {
    match *pattern.get(at)? {
        '-' | ']' => None,
        '\\' => Some((*pattern.get(at + 1)?, at + 2)),
        c => Some((c, at + 1)),
    }
}
