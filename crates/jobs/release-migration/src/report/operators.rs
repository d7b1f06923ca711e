//! Operators in a report.

use api::openshift::{ClusterOperator, Condition, annotations};
use jiff::Timestamp;
use kube_core::ResourceExt as _;
use serde::Serialize;

use super::Cluster;
use crate::adoption::OPERATOR_IMAGE;
use crate::conditions::MACHINE_CONFIG;
use crate::diagnose::{Diagnosis, diagnose};
use crate::evaluate::{MissingVersion, Phase, check, undone};

/// An operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent condition"
)]
pub struct OperatorReport {
    /// Its name.
    pub name: String,
    /// Whether it is updated.
    pub updated: bool,
    /// Whether it reports Progressing.
    pub progressing: bool,
    /// Whether it reports Available.
    pub available: bool,
    /// Whether it reports Degraded.
    pub degraded: bool,
    /// Whether its health blocks completion.
    #[serde(skip)]
    pub(super) is_blocking: bool,
    /// Whether it reports its image, so that its completion is exact.
    pub reports_image: bool,
    /// The transition time of Progressing.
    #[serde(serialize_with = "super::data::time")]
    pub since: Option<Timestamp>,
    /// CamelCase reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Versions that it does not report, and why.
    pub undone: Vec<Diagnosis>,
}

impl OperatorReport {
    /// Whether it is updating.
    pub fn is_updating(&self) -> bool {
        self.progressing && !self.updated
    }
}

/// ClusterOperators of the release, which have an annotation; other operators may create their own.
pub(super) fn of_release(
    operators: &[ClusterOperator],
) -> impl Iterator<Item = (&str, &ClusterOperator)> {
    operators.iter().filter_map(|it| {
        let annotations = it.metadata.annotations.iter().flatten();
        let mut keys = annotations.map(|(key, _)| key);
        let is_own = keys.any(|key| {
            key.starts_with(annotations::INCLUDE) || key.starts_with(annotations::EXCLUDE)
        });
        is_own.then(|| (it.metadata.name.as_deref().unwrap_or_default(), it))
    })
}

/// Every operator of the release, by name.
pub(super) fn reports(cluster: &Cluster<'_>) -> Vec<OperatorReport> {
    let mut reports: Vec<OperatorReport> = match cluster.plan {
        Some(plan) => {
            let expected = plan.operators().iter();
            let of = |name: &str| cluster.operators.iter().find(|it| it.name_any() == name);
            expected
                .map(|it| {
                    let actual = of(&it.name);
                    let report = report(&it.name, actual, &undone(&it.expected, actual));
                    let failure = check(&it.expected, actual, Phase::Reconciling, 0, 0);
                    OperatorReport {
                        is_blocking: failure.is_some(),
                        ..report
                    }
                })
                .collect()
        }
        None => of_release(cluster.operators)
            .map(|(name, it)| report(name, Some(it), &guessed(cluster, name, it)))
            .collect(),
    };
    reports.sort_by(|one, other| one.name.cmp(&other.name));
    reports
}

/// The expected versions without the release: its version, and for machine-config the image in its Deployment.
fn guessed(cluster: &Cluster<'_>, name: &str, operator: &ClusterOperator) -> Vec<MissingVersion> {
    let status = cluster.version.status.as_ref();
    let version = status.map_or("", |it| it.desired.version.as_str());
    let mut undone = Vec::new();
    let mut expect = |name: &str, to: &str| {
        let from = operator.version(name);
        if from != Some(to) {
            undone.push(MissingVersion {
                name: name.to_owned(),
                from: from.map(str::to_owned),
                to: to.to_owned(),
            });
        }
    };
    // What `oc adm upgrade status` checks: without the payload nothing else is known to be expected.
    expect("operator", version);
    if let (MACHINE_CONFIG, Some(image), Some(_)) = (
        name,
        cluster.machine_config_image,
        operator.version(OPERATOR_IMAGE),
    ) {
        expect(OPERATOR_IMAGE, image);
    }
    undone
}

fn report(
    name: &str,
    operator: Option<&ClusterOperator>,
    undone: &[MissingVersion],
) -> OperatorReport {
    let condition = |kind: &str| operator.and_then(|it| it.condition(kind));
    let progressing = condition("Progressing");
    let available = condition("Available").is_some_and(Condition::is_true);
    let degraded = condition("Degraded").is_some_and(Condition::is_true);
    OperatorReport {
        name: name.to_owned(),
        updated: operator.is_some() && undone.is_empty(),
        progressing: progressing.is_some_and(Condition::is_true),
        available,
        degraded,
        is_blocking: !available || degraded,
        reports_image: operator.is_some_and(|it| it.version(OPERATOR_IMAGE).is_some()),
        since: progressing
            .and_then(|it| it.last_transition_time.as_ref())
            .map(|it| it.0),
        reason: progressing.map(|it| it.reason.clone()).unwrap_or_default(),
        message: progressing.map(|it| it.message.clone()).unwrap_or_default(),
        undone: undone.iter().map(|it| diagnose(it, &[])).collect(),
    }
}
