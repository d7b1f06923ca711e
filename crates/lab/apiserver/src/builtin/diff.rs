//! Unified diffs with three lines of context, by the algorithm of Python's `difflib`: messages of
//! kube-apiserver contain such diffs and are compared as text.

use std::collections::HashMap;

/// Number of context lines.
const CONTEXT: usize = 3;

/// An edit that replaces `old[from..to]` by `new[start..end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edit {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// The diff of two texts; empty when they are the same.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    let mut out = String::new();
    for group in groups(edits(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let from = range(first.old.0, last.old.1);
        let to = range(first.new.0, last.new.1);
        out.push_str(&["@@ -", &from, " +", &to, " @@\n"].concat());
        for edit in &group {
            let mut line = |mark: char, text: &str| {
                out.push(mark);
                out.push_str(text);
                out.push('\n');
            };
            if edit.equal {
                old[edit.old.0..edit.old.1]
                    .iter()
                    .for_each(|text| line(' ', text));
            } else {
                old[edit.old.0..edit.old.1]
                    .iter()
                    .for_each(|text| line('-', text));
                new[edit.new.0..edit.new.1]
                    .iter()
                    .for_each(|text| line('+', text));
            }
        }
    }
    out
}

/// A line range in a hunk header.
fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// Splits edits into hunks, with context around each.
fn groups(mut edits: Vec<Edit>) -> Vec<Vec<Edit>> {
    if edits.iter().all(|edit| edit.equal) {
        return Vec::new();
    }
    if let Some(first) = edits.first_mut().filter(|edit| edit.equal) {
        first.old.0 = first.old.0.max(first.old.1.saturating_sub(CONTEXT));
        first.new.0 = first.new.0.max(first.new.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = edits.last_mut().filter(|edit| edit.equal) {
        last.old.1 = last.old.1.min(last.old.0 + CONTEXT);
        last.new.1 = last.new.1.min(last.new.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut edit in edits {
        if edit.equal && edit.old.1 - edit.old.0 > 2 * CONTEXT {
            group.push(Edit {
                equal: true,
                old: (edit.old.0, edit.old.0 + CONTEXT),
                new: (edit.new.0, edit.new.0 + CONTEXT),
            });
            groups.push(std::mem::take(&mut group));
            edit.old.0 = edit.old.1 - CONTEXT;
            edit.new.0 = edit.new.1 - CONTEXT;
        }
        group.push(edit);
    }
    if !group.iter().all(|edit| edit.equal) {
        groups.push(group);
    }
    groups
}

fn edits(old: &[&str], new: &[&str]) -> Vec<Edit> {
    let mut edits = Vec::new();
    let (mut i, mut j) = (0, 0);
    let mut blocks = matching_blocks(old, new);
    blocks.push((old.len(), new.len(), 0));
    for (from, to, length) in blocks {
        if i < from || j < to {
            edits.push(Edit {
                equal: false,
                old: (i, from),
                new: (j, to),
            });
        }
        (i, j) = (from + length, to + length);
        if length > 0 {
            edits.push(Edit {
                equal: true,
                old: (from, i),
                new: (to, j),
            });
        }
    }
    edits
}

/// The matching blocks of both texts, in order and as long as possible.
fn matching_blocks(old: &[&str], new: &[&str]) -> Vec<(usize, usize, usize)> {
    let mut lines: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, line) in new.iter().enumerate() {
        lines.entry(line).or_default().push(j);
    }
    // Very frequent lines are useless as anchors.
    // The `autojunk` heuristic of difflib, with its numbers; upstream's Go port has it on.
    if new.len() >= 200 {
        let most = new.len() / 100 + 1;
        lines.retain(|_, places| places.len() <= most);
    }
    let mut blocks = Vec::new();
    let mut todo = vec![(0, old.len(), 0, new.len())];
    while let Some((old_from, old_to, new_from, new_to)) = todo.pop() {
        let (i, j, length) =
            longest_match(old, new, &lines, (old_from, old_to), (new_from, new_to));
        if length == 0 {
            continue;
        }
        blocks.push((i, j, length));
        if old_from < i && new_from < j {
            todo.push((old_from, i, new_from, j));
        }
        if i + length < old_to && j + length < new_to {
            todo.push((i + length, old_to, j + length, new_to));
        }
    }
    blocks.sort_unstable();
    let mut joined: Vec<(usize, usize, usize)> = Vec::new();
    for (i, j, length) in blocks {
        match joined.last_mut() {
            Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += length,
            _ => joined.push((i, j, length)),
        }
    }
    joined
}

fn longest_match(
    old: &[&str],
    new: &[&str],
    lines: &HashMap<&str, Vec<usize>>,
    (old_from, old_to): (usize, usize),
    (new_from, new_to): (usize, usize),
) -> (usize, usize, usize) {
    let (mut best_i, mut best_j, mut best) = (old_from, new_from, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (i, line) in old.iter().enumerate().take(old_to).skip(old_from) {
        let mut next = HashMap::new();
        for &j in lines.get(line).map(Vec::as_slice).unwrap_or_default() {
            if j < new_from {
                continue;
            }
            if j >= new_to {
                break;
            }
            let before = j
                .checked_sub(1)
                .and_then(|j| lengths.get(&j))
                .copied()
                .unwrap_or_default();
            let length = before + 1;
            next.insert(j, length);
            if length > best {
                (best_i, best_j, best) = (i + 1 - length, j + 1 - length, length);
            }
        }
        lengths = next;
    }
    while best_i > old_from && best_j > new_from && old[best_i - 1] == new[best_j - 1] {
        (best_i, best_j, best) = (best_i - 1, best_j - 1, best + 1);
    }
    while best_i + best < old_to
        && best_j + best < new_to
        && old[best_i + best] == new[best_j + best]
    {
        best += 1;
    }
    (best_i, best_j, best)
}
