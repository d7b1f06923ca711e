//! Which releases are forgotten when there are too many.

use api::openshift::UpdateHistory;

/// How many releases a ClusterVersion remembers.
pub const MOST: usize = 100;

/// The newest ones are always kept.
const NEWEST: usize = 5;

/// Forgets the least interesting entry while there are more than `most`. Always kept are the oldest one,
/// the five newest and the newest one that was all there. Of the others the first to go are updates that
/// were given up between two patch releases, and the last those by which a minor version began or ended.
/// Of equals the older one goes.
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

/// How interesting an entry is, in hundredths.
fn rank(history: &[UpdateHistory], place: usize) -> i64 {
    let newest_completed = history.iter().position(UpdateHistory::is_completed);
    let is_oldest = place + 1 == history.len();
    let worth = if is_oldest || place < NEWEST || newest_completed == Some(place) {
        100_000
    } else {
        worth(history, place)
    };
    // Older ones are worth less, and no two are worth the same.
    worth - i64::try_from(place).unwrap_or(i64::MAX / 200) * 101
}

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
