//! Planning by the operator's own engine, without changing anything.

use ::governance::answer;
use ::governance::decide::DecisionInputs;
use ::governance::hash::Terms;
use ::governance::plan::{self, Draft, Plan, Preview};
use ::governance::recorder::Recorder;
use ::governance::{Registry, Snapshot};
use anyhow::Context as _;
use api::advisor::{ApprovalRequirement, Phase, VirtPlatformConfig};
use controllers::governance::{cluster, history, preview};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use super::source::Source;
use crate::version;

/// Result of planning a configuration.
pub(super) enum Attempt {
    /// A plan.
    Planned(Box<Planned>),
    /// The configuration cannot be planned.
    Impossible {
        /// The configuration.
        config: Box<VirtPlatformConfig>,
        /// The reason.
        why: String,
    },
}

/// A plan computed now.
pub(super) struct Planned {
    /// The configuration it was computed from.
    pub(super) config: VirtPlatformConfig,
    /// The plan.
    pub(super) plan: Plan,
    /// Server-side dry runs of each item.
    pub(super) previews: Vec<Preview>,
}

/// Relation of a plan computed now to the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The configuration does not exist.
    Imagined,
    /// It is the plan that waits for approval.
    UnderReview,
    /// It is the plan that is being applied.
    InProgress,
    /// Another plan waits for approval.
    OtherUnderReview,
    /// No plan waits.
    Unreviewed,
}

impl Planned {
    /// Compares the plan with the status.
    pub(super) fn standing(&self) -> Standing {
        if self.config.metadata.uid.is_none() {
            return Standing::Imagined;
        }
        let status = self.config.status.as_ref();
        let same = status.and_then(|status| status.plan_digest.as_ref()) == Some(&self.plan.digest);
        match (status.and_then(|status| status.phase), same) {
            (Some(Phase::ReviewRequired), true) => Standing::UnderReview,
            (Some(Phase::ReviewRequired), false) => Standing::OtherUnderReview,
            (Some(Phase::InProgress), true) => Standing::InProgress,
            _ => Standing::Unreviewed,
        }
    }

    /// The required approvals, with the users whose approvals count so far. For a plan that is not
    /// under review, those that the operator last reported: it evaluates policies when it computes
    /// the plan.
    pub(super) fn requirements(&self) -> Vec<(ApprovalRequirement, Vec<String>)> {
        answer::approved_by(&self.config, &self.plan.digest)
    }
}

/// Plans a configuration.
pub(super) async fn plan(
    source: &Source,
    registry: &Registry,
    config: VirtPlatformConfig,
) -> anyhow::Result<Attempt> {
    let (draft, snapshot, terms) = match draft(source, registry, &config).await? {
        Ok(drafted) => drafted,
        Err(why) => {
            return Ok(Attempt::Impossible {
                config: Box::new(config),
                why,
            });
        }
    };
    let mut previews = Vec::new();
    for item in &draft.items {
        let preview = preview::preview(&source.client, &snapshot, item)
            .await
            .with_context(|| format!("planning {}", config.name_any()))?;
        previews.push(preview);
    }
    let applied = config.status.clone().unwrap_or_default().applied;
    Ok(match plan::assemble(draft, &previews, &applied, &terms) {
        Ok(plan) => Attempt::Planned(Box::new(Planned {
            config,
            plan,
            previews,
        })),
        Err(why) => Attempt::Impossible {
            config: Box::new(config),
            why,
        },
    })
}

/// The plan before dry runs, with the objects it was derived from; or why there is none.
pub(super) async fn draft(
    source: &Source,
    registry: &Registry,
    config: &VirtPlatformConfig,
) -> anyhow::Result<Result<(Draft, Snapshot, Terms), String>> {
    let name = config.name_any();
    let what = || format!("planning {name}");
    let profile = registry.get(&config.spec.profile);
    let snapshot = match profile {
        Some(profile) => cluster::look(&source.client, profile.uses())
            .await
            .with_context(what)?,
        None => Snapshot::default(),
    };
    let records = history::records(&source.client, &source.history_namespace, &name)
        .await
        .with_context(what)?;
    let facts = DecisionInputs {
        config,
        profile: profile.map(|profile| &**profile),
        snapshot: &snapshot,
        records: &records,
        // Policies decide who approves, not what is planned.
        policies: &[],
        recorder: &Recorder::Trusted,
        version: version::OPERATOR,
        now: Timestamp::now(),
    };
    Ok(match plan::draft(&facts) {
        Ok(draft) => {
            let terms = plan::terms(&facts, plan::next_revision(&facts));
            Ok((draft, snapshot, terms))
        }
        Err(problem) => Err(problem.message()),
    })
}
