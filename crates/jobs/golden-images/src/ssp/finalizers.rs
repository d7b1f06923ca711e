//! The finalizers of an SSP: ours, and the one of the upstream operator.

use api::ssp::SSP;

/// Keeps an SSP until the objects that Medley created for it are deleted.
pub const FINALIZER: &str = "medley.dev/images-ssp";
/// Does the same for the upstream operator, which sets it only on an SSP without `status.phase`, and deletes nothing
/// without it.
pub const UPSTREAM_FINALIZER: &str = "ssp.kubevirt.io/finalizer";

/// The next step to leave an SSP to the running upstream operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteppingBack {
    /// Add the operator's finalizer.
    Add(&'static str),
    /// Remove ours.
    Remove(&'static str),
    /// The SSP is being deleted, and only we delete what was created for it.
    CleanUp,
    /// Nothing: the SSP is the operator's.
    Done,
}

/// Decides the next step. The operator's finalizer comes first, so that an SSP that is deleted in between is cleaned up
/// by one of both. Without a running operator, ours stays, and what was created for a deleted SSP is deleted.
pub fn step_back(ssp: &SSP, operator_runs: bool) -> SteppingBack {
    let finalizers = ssp.metadata.finalizers.as_deref().unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|it| it == name);
    let is_deleted = ssp.metadata.deletion_timestamp.is_some();
    match (has(FINALIZER), has(UPSTREAM_FINALIZER)) {
        (false, _) => SteppingBack::Done,
        (true, _) if !operator_runs && is_deleted => SteppingBack::CleanUp,
        (true, _) if !operator_runs => SteppingBack::Done,
        (true, true) => SteppingBack::Remove(FINALIZER),
        // The API server accepts no new finalizer then.
        (true, false) if is_deleted => SteppingBack::CleanUp,
        (true, false) => SteppingBack::Add(UPSTREAM_FINALIZER),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::of_the_operator(&[UPSTREAM_FINALIZER], false, SteppingBack::Done)]
    #[case::ours_alone(&[FINALIZER], false, SteppingBack::Add(UPSTREAM_FINALIZER))]
    #[case::both(&[FINALIZER, UPSTREAM_FINALIZER], false, SteppingBack::Remove(FINALIZER))]
    #[case::deleted_with_both(&[FINALIZER, UPSTREAM_FINALIZER], true, SteppingBack::Remove(FINALIZER))]
    #[case::deleted_with_ours_alone(&[FINALIZER], true, SteppingBack::CleanUp)]
    fn one_of_both_always_cleans_up(
        #[case] finalizers: &[&str],
        #[case] is_deleted: bool,
        #[case] expected: SteppingBack,
    ) {
        let mut ssp = SSP::default();
        ssp.metadata.finalizers = serde_json::from_value(json!(finalizers)).unwrap();
        if is_deleted {
            let time = serde_json::from_value(json!("2026-01-01T00:00:00Z"));
            ssp.metadata.deletion_timestamp = time.unwrap();
        }
        assert_eq!(step_back(&ssp, true), expected);
        let alone = match (finalizers.contains(&FINALIZER), is_deleted) {
            (true, true) => SteppingBack::CleanUp,
            _ => SteppingBack::Done,
        };
        assert_eq!(step_back(&ssp, false), alone);
    }
}
