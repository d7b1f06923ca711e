//! Corrections are limited to five per minute, and end.

use api::advisor::Enforcement;
use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
}

/// As read back from the server, which keeps whole seconds.
fn stored(enforcement: &Enforcement) -> Enforcement {
    serde_json::from_str(&serde_json::to_string(enforcement).unwrap()).unwrap()
}

#[test]
fn fight_pauses_correction_within_the_minute() {
    let mut state = None;
    let (mut corrections, mut paused_at) = (0, None);
    for second in 0..1000 {
        let (next, verdict) = correct(state.as_ref(), at(second * 1000), Some("argocd"));
        state = Some(stored(&next));
        match verdict {
            CorrectionVerdict::Correct => corrections += 1,
            CorrectionVerdict::Pause => {
                assert_eq!(paused_at, None, "pausing is reported once");
                paused_at = Some(second);
            }
            CorrectionVerdict::Paused => assert!(paused_at.is_some()),
        }
    }
    assert_eq!(corrections, CORRECTIONS);
    assert_eq!(paused_at, Some(5));
    let state = state.unwrap();
    assert!(state.paused);
    assert_eq!(state.against.as_deref(), Some("argocd"));
}

/// The slowest fight that the limit covers: the sixth correction would still be in the minute of the first.
#[test]
fn slowest_fight_is_paused_before_the_minute_ends() {
    let mut state = None;
    for round in 0..5 {
        let (next, verdict) = correct(state.as_ref(), at(round * 11_500), None);
        assert_eq!(verdict, CorrectionVerdict::Correct);
        state = Some(stored(&next));
    }
    let (_, verdict) = correct(state.as_ref(), at(57_500), None);
    assert_eq!(verdict, CorrectionVerdict::Pause);
    let (_, verdict) = correct(state.as_ref(), at(60_000), None);
    assert_eq!(verdict, CorrectionVerdict::Correct, "the first is over");
}

#[test]
fn occasional_edits_are_always_corrected() {
    let mut state = None;
    for round in 0..2000 {
        // Every three minutes, the polling interval of GitOps tools.
        let (next, verdict) = correct(state.as_ref(), at(round * 180_000), Some("argocd"));
        assert_eq!(verdict, CorrectionVerdict::Correct);
        assert!(
            next.corrections.len() <= CORRECTIONS,
            "status does not grow"
        );
        state = Some(next);
    }
}

fn paused() -> Enforcement {
    Enforcement {
        corrections: vec![Time(at(0))],
        paused: true,
        against: Some("argocd".to_owned()),
    }
}

#[test]
fn pause_lasts_while_drift_exists() {
    let (next, verdict) = correct(Some(&paused()), at(7_200_000), Some("argocd"));
    assert_eq!(verdict, CorrectionVerdict::Paused);
    assert_eq!(next, paused());
}

#[test]
fn quiet_hour_resets_enforcement() {
    assert_eq!(settled(&paused(), at(3_599_000)), Some(paused()));
    assert_eq!(settled(&paused(), at(3_600_000)), None);
}

#[test]
fn spec_change_resumes_correction() {
    let (next, verdict) = correct(resumed().as_ref(), at(0), Some("argocd"));
    assert_eq!(verdict, CorrectionVerdict::Correct);
    assert!(!next.paused);
}

proptest! {
    /// For any sequence of drift, although only whole seconds are stored.
    #[test]
    fn at_most_five_corrections_in_any_minute(
        gaps in prop::collection::vec(prop_oneof![0_i64..500, 0_i64..20_000, 0_i64..90_000], 1..200),
        resumes in prop::collection::vec(prop::bool::weighted(0.02), 200),
    ) {
        let mut state: Option<Enforcement> = None;
        let mut now = 0;
        let mut corrected = Vec::new();
        for (gap, resume) in gaps.into_iter().zip(resumes) {
            now += gap;
            // A user takes longer than a minute to react.
            if resume && state.as_ref().is_some_and(|state| state.paused) {
                now += 60_000;
                state = resumed();
            }
            let (next, verdict) = correct(state.as_ref(), at(now), None);
            if verdict == CorrectionVerdict::Correct {
                corrected.push(now);
            }
            state = Some(stored(&next));
        }
        for six in corrected.windows(CORRECTIONS + 1) {
            prop_assert!(six[CORRECTIONS] - six[0] >= 60_000, "{six:?}");
        }
    }
}
