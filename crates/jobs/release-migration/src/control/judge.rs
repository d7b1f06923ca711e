//! The judgement itself: how far the cluster is, and whether it has arrived.

use api::openshift::{ClusterVersion, Condition, Release, UpdateHistory};
use api::release::{Gate, PoolState, ReleasePolicyStatus, TargetRelease};
use jiff::Timestamp;

use super::aim::described;
use super::{Facts, Loaded, Trouble, TroubleKind, pools};
use crate::conditions::{self, Claims, Waits, claims};
use crate::evaluate::{Evaluation, Phase};
use crate::failure::Failure;
use crate::history::{Change, KnownPayloads, Progress, classify, merge, phase};

/// What is held of a cluster.
pub(super) struct Judged<'a> {
    /// The release that it is held against.
    pub(super) release: Release,
    /// Its files.
    pub(super) loaded: Option<&'a Loaded>,
    /// Why those of the release that is asked for are not there or not used.
    pub(super) trouble: Option<Trouble>,
    /// What kind of change it is.
    pub(super) change: Change,
    /// The releases that the cluster had, as they are to be told.
    pub(super) history: Vec<UpdateHistory>,
    /// How far it has come, if its files are there.
    pub(super) evaluation: Option<Evaluation>,
    /// What holds it up: an operator, or a pool that is to be waited for.
    pub(super) failure: Option<Failure>,
    /// Since when operators are waited for.
    pub(super) waits: Waits,
    /// Pools of machines.
    pub(super) pools: Vec<PoolState>,
    /// What the cluster version operator would say.
    pub(super) claims: Option<Claims>,
    /// Whether it has arrived.
    pub(super) complete: bool,
    /// Whether the ClusterVersion says so.
    pub(super) claimed: bool,
    /// When it began.
    pub(super) started: Option<Timestamp>,
    /// When it had arrived.
    pub(super) completed: Option<Timestamp>,
}

/// Holds a cluster against its release.
pub(super) fn judge<'a>(
    facts: &Facts<'a>,
    version: &ClusterVersion,
    before: &ReleasePolicyStatus,
    keeps: bool,
) -> Judged<'a> {
    let current = version
        .status
        .as_ref()
        .map(|it| it.desired.clone())
        .unwrap_or_default();
    let asked = facts.aim.wanted.clone().unwrap_or_default();
    let accepted = facts.wanted.map_err(Clone::clone).and_then(|loaded| {
        let found = &loaded.payload.metadata.version;
        if asked.version.is_empty() || asked.version == *found {
            return Ok(loaded);
        }
        Err(Trouble {
            kind: TroubleKind::Mismatch,
            message: format!(
                "release image version {found} does not match the expected upstream version {}",
                asked.version
            ),
        })
    });
    let (release, loaded, trouble) = match accepted {
        Ok(loaded) if keeps => {
            let release = described(&asked.image, &loaded.payload.metadata);
            (release, Some(loaded), None)
        }
        Ok(loaded) => (asked, Some(loaded), None),
        // What cannot be had does not disturb what there is.
        Err(trouble) if keeps && !current.image.is_empty() => {
            let same = current.image == asked.image;
            let loaded = facts.current.filter(|_| !same);
            (current, loaded, Some(trouble))
        }
        Err(trouble) if keeps => (Release::default(), None, Some(trouble)),
        Err(trouble) => (asked, None, Some(trouble)),
    };
    let mut judged = Judged {
        claimed: claims_completion(version, &release),
        change: Change::Install,
        history: version.history().to_vec(),
        evaluation: None,
        failure: None,
        waits: Waits::default(),
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
    let known = known.filter(|it| it.image == judged.release.image);
    if keeps {
        let doing = Progress::default();
        merge(&mut judged.history, &judged.release, &doing, facts.now);
    }
    judged.change = change(&judged, version, facts);
    begin(&mut judged, known, facts.now);
    if let Some(loaded) = judged.loaded {
        if known.is_some() {
            let rows = before.operators.iter();
            let waited = rows.filter_map(|it| {
                let since = it.waiting_since.as_ref()?;
                Some((it.name.as_str(), since.0))
            });
            judged.waits = Waits::restored(waited);
        }
        evaluate(&mut judged, facts, loaded, known, keeps);
    }
    judged
}

/// Whether a ClusterVersion says that a release is all there.
fn claims_completion(version: &ClusterVersion, release: &Release) -> bool {
    let newest = version.history().first();
    newest.is_some_and(|it| it.is_completed() && it.image == release.image)
        && !version
            .condition("Progressing")
            .is_some_and(Condition::is_true)
}

fn change(judged: &Judged<'_>, version: &ClusterVersion, facts: &Facts<'_>) -> Change {
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

/// When it began: as the history says, as is known, or now.
fn begin(judged: &mut Judged<'_>, known: Option<&TargetRelease>, now: Timestamp) {
    if judged.release.image.is_empty() {
        return;
    }
    let newest = judged.history.first();
    let newest = newest.filter(|it| it.image == judged.release.image);
    let told = newest.and_then(|it| it.started_time.as_ref());
    let before = known.and_then(|it| it.started_time.as_ref());
    judged.started = Some(told.or(before).map_or(now, |it| it.0));
    let before = known.and_then(|it| it.completion_time.as_ref());
    judged.completed = before.map(|it| it.0);
}

fn evaluate(
    judged: &mut Judged<'_>,
    facts: &Facts<'_>,
    loaded: &Loaded,
    known: Option<&TargetRelease>,
    keeps: bool,
) {
    let image = &judged.release.image;
    let mut at = if keeps {
        phase(&judged.history, image)
    } else if judged.completed.is_some() {
        Phase::Reconciling
    } else if judged.history.iter().any(UpdateHistory::is_completed) {
        Phase::Updating
    } else {
        Phase::Initializing
    };
    // Who says that all is applied does not wait for one step after the other.
    let order = if judged.claimed {
        Phase::Reconciling
    } else {
        at
    };
    let evaluation = loaded.plan.evaluate(facts.operators, order);
    judged.waits.note(&evaluation, facts.now);
    judged.failure.clone_from(&evaluation.failure);
    if judged.failure.is_none()
        && at != Phase::Reconciling
        && facts.policy.spec.worker_pools == Gate::Require
    {
        let late = judged.pools.iter().filter(|it| !it.done);
        let late: Vec<&str> = late.map(|it| it.name.as_str()).collect();
        judged.failure = Failure::of_pools(&late);
    }
    // An installation asks for no versions, but who looks on does.
    let all_told = evaluation.operators.iter().all(|it| it.undone.is_empty());
    judged.complete = judged.failure.is_none() && (keeps || all_told);
    if judged.complete && at != Phase::Reconciling {
        at = Phase::Reconciling;
        let ended = judged.history.first().filter(|_| judged.claimed);
        let ended = ended.and_then(|it| it.completion_time.as_ref());
        // What was so before anybody looked has been so since the cluster said so.
        let ended = ended.filter(|_| known.is_none()).map(|it| it.0);
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
    judged.claims = Some(claims(&conditions::Facts {
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
