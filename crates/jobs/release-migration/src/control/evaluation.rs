//! Evaluates the progress and completion of a release.

use api::openshift::{ClusterVersion, Release, UpdateHistory};
use api::release::{Gate, PoolState, ReleasePolicyStatus, TargetRelease};
use jiff::Timestamp;

use super::release_target::described;
use super::{LoadedRelease, PayloadFailure, PayloadFailureKind, ReleaseInputs, pools};
use crate::applied::{self, claims_completion};
use crate::conditions::{self, OperatorWaits, ProgressConditions, claims};
use crate::evaluate::{Evaluation, Phase};
use crate::failure::Failure;
use crate::history::{Change, KnownPayloads, Progress, classify, merge, phase};

/// The evaluation of a cluster.
pub(super) struct ClusterEvaluation<'a> {
    /// The release that it is compared with.
    pub(super) release: Release,
    /// Its files.
    pub(super) loaded: Option<&'a LoadedRelease>,
    /// Why the files of the requested release are missing or not used.
    pub(super) trouble: Option<PayloadFailure>,
    /// The kind of change.
    pub(super) change: Change,
    /// The history as it is to be reported.
    pub(super) history: Vec<UpdateHistory>,
    /// The progress, if the files are available.
    pub(super) evaluation: Option<Evaluation>,
    /// What blocks completion: an operator, or a pool that is to be waited for.
    pub(super) failure: Option<Failure>,
    /// The start of the wait for each operator.
    pub(super) waits: OperatorWaits,
    /// The states of MachineConfigPools.
    pub(super) pools: Vec<PoolState>,
    /// The conditions that the cluster-version operator would report.
    pub(super) claims: Option<ProgressConditions>,
    /// Whether the release is complete.
    pub(super) complete: bool,
    /// Whether the ClusterVersion claims completion.
    pub(super) claimed: bool,
    /// When the update started.
    pub(super) started: Option<Timestamp>,
    /// When it was complete.
    pub(super) completed: Option<Timestamp>,
}

/// Compares a cluster with its release.
pub(super) fn judge<'a>(
    facts: &ReleaseInputs<'a>,
    version: &ClusterVersion,
    before: &ReleasePolicyStatus,
    keeps: bool,
) -> ClusterEvaluation<'a> {
    let current = version
        .status
        .as_ref()
        .map(|it| it.desired.clone())
        .unwrap_or_default();
    let requested = facts.aim.wanted.clone().unwrap_or_default();
    // A payload under the requested image may be of another version: a tag that moved, or a mirror mistake. The text is
    // that of the cluster-version operator.
    let accepted = facts.wanted.map_err(Clone::clone).and_then(|loaded| {
        let found = &loaded.payload.metadata.version;
        if requested.version.is_empty() || requested.version == *found {
            return Ok(loaded);
        }
        Err(PayloadFailure {
            kind: PayloadFailureKind::Mismatch,
            message: format!(
                "release image version {found} does not match the expected upstream version {}",
                requested.version
            ),
        })
    });
    let (release, loaded, trouble) = match accepted {
        Ok(loaded) if keeps => {
            let release = described(&requested.image, &loaded.payload.metadata);
            (release, Some(loaded), None)
        }
        Ok(loaded) => (requested, Some(loaded), None),
        // A release that cannot be loaded does not affect the current one.
        Err(trouble) if keeps && !current.image.is_empty() => {
            let same = current.image == requested.image;
            let loaded = facts.current.filter(|_| !same);
            (current, loaded, Some(trouble))
        }
        Err(trouble) if keeps => (Release::default(), None, Some(trouble)),
        Err(trouble) => (requested, None, Some(trouble)),
    };
    let mut judged = ClusterEvaluation {
        claimed: claims_completion(version, &release.image),
        change: Change::Install,
        history: version.history().to_vec(),
        evaluation: None,
        failure: None,
        waits: OperatorWaits::default(),
        pools: pools::states(facts.pools),
        claims: None,
        complete: false,
        started: None,
        completed: None,
        release,
        loaded,
        trouble,
    };
    let known = before.target.as_ref();
    // The former status counts only for the same release: waits and times of another one would expire at once.
    let known = known.filter(|it| it.image == judged.release.image);
    if keeps {
        let doing = Progress::default();
        merge(&mut judged.history, &judged.release, &doing, facts.now);
    }
    judged.change = change(&judged, version, facts);
    set_start(&mut judged, known, facts.now);
    if let Some(loaded) = judged.loaded {
        if known.is_some() {
            let rows = before.operators.iter();
            let waited = rows.filter_map(|it| {
                let since = it.waiting_since.as_ref()?;
                Some((it.name.as_str(), since.0))
            });
            // From the status, so that a restart of the operator does not restart the limits of 30, 40 and 90 minutes.
            judged.waits = OperatorWaits::restored(waited);
        }
        evaluate(&mut judged, facts, version, loaded, known, keeps);
    }
    judged
}

fn change(
    judged: &ClusterEvaluation<'_>,
    version: &ClusterVersion,
    facts: &ReleaseInputs<'_>,
) -> Change {
    let mut known = KnownPayloads::of(version);
    for kept in facts.kept {
        known.add(&kept.image, kept.metadata.architecture());
    }
    for loaded in judged.loaded.into_iter().chain(facts.current) {
        known.add(&loaded.image, loaded.payload.metadata.architecture());
    }
    let newest = classify(&judged.history, &known).into_iter().next();
    newest.unwrap_or(Change::Install)
}

/// The start time: from the history, from the former status, or now.
fn set_start(judged: &mut ClusterEvaluation<'_>, known: Option<&TargetRelease>, now: Timestamp) {
    if judged.release.image.is_empty() {
        return;
    }
    let newest = judged.history.first();
    let newest = newest.filter(|it| it.image == judged.release.image);
    let recorded = newest.and_then(|it| it.started_time.as_ref());
    let before = known.and_then(|it| it.started_time.as_ref());
    judged.started = Some(recorded.or(before).map_or(now, |it| it.0));
    let before = known.and_then(|it| it.completion_time.as_ref());
    judged.completed = before.map(|it| it.0);
}

fn evaluate(
    judged: &mut ClusterEvaluation<'_>,
    facts: &ReleaseInputs<'_>,
    version: &ClusterVersion,
    loaded: &LoadedRelease,
    known: Option<&TargetRelease>,
    keeps: bool,
) {
    let image = &judged.release.image;
    // Where Medley only observes, the history is not its own: the cluster-version operator may have completed the entry
    // too early, and the phase would hide what is still missing.
    let mut at = if keeps {
        phase(&judged.history, image)
    } else if judged.completed.is_some() {
        Phase::Reconciling
    } else if judged.history.iter().any(UpdateHistory::is_completed) {
        Phase::Updating
    } else {
        Phase::Initializing
    };
    // After a claimed completion no operator waits for an earlier one.
    let order = if judged.claimed {
        Phase::Reconciling
    } else {
        at
    };
    let evaluation = loaded.plan.evaluate(facts.operators, order);
    judged.waits.note(&evaluation, facts.now);
    judged.failure.clone_from(&evaluation.failure);
    // Where Medley owns the ClusterVersion, its conditions are Medley's own.
    if !keeps {
        // It names what has to be repaired, also if an operator only waits for it.
        if let Some(failing) = applied::failing(version) {
            judged.failure = Some(failing);
        } else if judged.failure.is_none() && at != Phase::Reconciling {
            judged.failure = applied::pending(version, image, &loaded.plan);
        }
    }
    if judged.failure.is_none()
        && at != Phase::Reconciling
        // After all operators: the target of a pool is the new one only then (`pools::states`). Upstream waits for the
        // control plane pools alone, which have the label required-for-upgrade in manifests of the Machine Config
        // Operator.
        && facts.policy.spec.worker_pools == Gate::Require
    {
        let late: Vec<String> = pools::late(facts.pools, claimed_end(judged));
        let late: Vec<&str> = late.iter().map(String::as_str).collect();
        judged.failure = Failure::of_pools(&late);
    }
    // An installation does not require versions, but the verdict of an observer does.
    let all_reported = evaluation.operators.iter().all(|it| it.undone.is_empty());
    judged.complete = judged.failure.is_none() && (keeps || all_reported);
    if judged.complete && at != Phase::Reconciling {
        at = Phase::Reconciling;
        // A completion before the first reconcile has the time that the ClusterVersion reports.
        let ended = claimed_end(judged).filter(|_| known.is_none());
        judged.completed = Some(ended.unwrap_or(facts.now));
        if keeps {
            let done = Progress {
                completed: true,
                ..Progress::default()
            };
            merge(&mut judged.history, &judged.release, &done, facts.now);
        }
    } else if judged.complete && judged.completed.is_none() {
        let newest = judged.history.first();
        let ended = newest.and_then(|it| it.completion_time.as_ref());
        judged.completed = Some(ended.map_or(facts.now, |it| it.0));
    }
    judged.claims = Some(claims(&conditions::ConditionInputs {
        phase: at,
        version: &judged.release.version,
        image,
        invalid: facts.aim.invalid.is_some(),
        failure: judged.failure.as_ref(),
        done: evaluation.done,
        total: evaluation.total,
        waits: &judged.waits,
        now: facts.now,
    }));
    judged.evaluation = Some(evaluation);
}

/// The claimed time of completion.
fn claimed_end(judged: &ClusterEvaluation<'_>) -> Option<Timestamp> {
    let newest = judged.history.first().filter(|_| judged.claimed)?;
    newest.completion_time.as_ref().map(|it| it.0)
}
