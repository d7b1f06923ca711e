//! Intervals between attempts.

use super::*;

fn now() -> Timestamp {
    "2026-07-01T12:00:00.25Z".parse().unwrap()
}

#[test]
fn intervals_double_up_to_the_longest() {
    let mut retry = None;
    let mut waits = Vec::new();
    for _ in 0..40 {
        let next = after_failure(retry.as_ref(), now(), LONGEST);
        let at = next.at.as_ref().unwrap().0;
        waits.push(at.duration_since(now()).as_secs() + 1);
        retry = Some(next);
    }
    assert_eq!(waits[..8], [30, 60, 120, 240, 480, 960, 1800, 1800]);
    assert_eq!(waits[39], 1800);
    assert_eq!(retry.unwrap().attempts, 40);
}

#[test]
fn attempt_is_pending_until_its_time() {
    let retry = after_failure(None, now(), LONGEST_FOR_PREREQUISITE);
    let at = pending(Some(&retry), now()).unwrap();
    assert_eq!(pending(Some(&retry), at), None, "it is due");
    assert_eq!(pending(Some(&begun(&retry)), now()), None);
    assert_eq!(pending(None, now()), None);
}

#[test]
fn number_of_failures_and_time_are_described() {
    let first = after_failure(None, now(), LONGEST);
    let expected = "It is tried again at 2026-07-01T12:00:30Z.";
    assert_eq!(describe(&first).unwrap(), expected);
    let second = after_failure(Some(&begun(&first)), now(), LONGEST);
    let expected = "It failed 2 times, and is tried again at 2026-07-01T12:01:00Z.";
    assert_eq!(describe(&second).unwrap(), expected);
    assert_eq!(describe(&begun(&second)), None);
}
