//! Prunes the update history.

use api::openshift::UpdateHistory;

/// Maximum number of entries in a ClusterVersion, as in the cluster-version operator.
pub const MAX_ENTRIES: usize = 100;

/// Number of newest entries that are always kept.
const KEPT_NEWEST: usize = 5;

/// Removes the least important entry while there are more than `most`. The oldest one, the five newest and the newest
/// completed one are always kept. Of the others, partial updates between two patch releases are removed first, and the
/// first and last of a minor version last. Among equals the older one is removed.
pub fn prune(history: &mut Vec<UpdateHistory>, most: usize) {
    while history.len() > most {
        let ranks = (0..history.len()).map(|place| (rank(history, place), place));
        let lowest = ranks.min_by_key(|(rank, place)| (*rank, std::cmp::Reverse(*place)));
        match lowest {
            Some((_, place)) => {
                history.remove(place);
            }
            None => return,
        }
    }
}

/// The importance of an entry, in hundredths.
fn rank(history: &[UpdateHistory], place: usize) -> i64 {
    let newest_completed = history.iter().position(UpdateHistory::is_completed);
    let is_oldest = place + 1 == history.len();
    let worth = if is_oldest || place < KEPT_NEWEST || newest_completed == Some(place) {
        100_000
    } else {
        worth(history, place)
    };
    // Older ones rank lower, and no two are equal.
    worth - i64::try_from(place).unwrap_or(i64::MAX / 200) * 101
}

/// The weights of pkg/cvo/status_history.go, times 100 to stay in integers.
fn worth(history: &[UpdateHistory], place: usize) -> i64 {
    let completed = |it: &&UpdateHistory| it.is_completed();
    let older = history.iter().skip(place + 1).find(completed);
    let newer = history.iter().take(place).rfind(completed);
    let Some(entry) = history.get(place) else {
        return 0;
    };
    if entry.is_completed() {
        let ends =
            |other: Option<&UpdateHistory>| other.is_none_or(|other| minor(other) != minor(entry));
        return if ends(older) || ends(newer) { 3000 } else { 0 };
    }
    match (older, newer) {
        (Some(older), Some(newer)) if minor(older) != minor(newer) => 2000,
        (Some(older), Some(newer)) if patch(older) != patch(newer) => -2000,
        _ => 0,
    }
}

fn part(entry: &UpdateHistory, place: usize) -> &str {
    entry.version.split('.').nth(place).unwrap_or_default()
}

fn minor(entry: &UpdateHistory) -> &str {
    part(entry, 1)
}

fn patch(entry: &UpdateHistory) -> (&str, &str) {
    (minor(entry), part(entry, 2))
}
