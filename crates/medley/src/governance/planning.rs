//! Planning now, by the operator's own engine, without changing anything.

use ::governance::approval::{self, Approvals};
use ::governance::decide::Facts;
use ::governance::plan::{self, Draft, Plan, Preview};
use ::governance::{Registry, Snapshot};
use anyhow::Context as _;
use api::advisor::{Phase, VirtPlatformConfig, names};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use operator::governance::{cluster, history, preview};

use super::source::Source;
use crate::version;

/// What came of planning a configuration.
pub(super) enum Attempt {
    /// A plan.
    Planned(Box<Planned>),
    /// There can be none.
    Impossible {
        /// The configuration.
        config: Box<VirtPlatformConfig>,
        /// Why.
        why: String,
    },
}

/// A plan of now.
pub(super) struct Planned {
    /// What it is made from.
    pub(super) config: VirtPlatformConfig,
    /// The plan.
    pub(super) plan: Plan,
    /// What the server made of each item.
    pub(super) previews: Vec<Preview>,
}

/// How a plan of now relates to what the status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no such object.
    Imagined,
    /// It is the one that waits for approval.
    UnderReview,
    /// It is the one that is carried out.
    InProgress,
    /// Another one waits for approval.
    OtherUnderReview,
    /// None waits.
    Unreviewed,
}

impl Planned {
    /// How the plan relates to what the status says.
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

    /// How many have to approve it.
    pub(super) fn approvals_needed(&self) -> u32 {
        let policy = self.config.spec.approval_policy.clone();
        approval::needed(
            &policy.unwrap_or_default().required_approvals,
            self.plan.impact,
        )
    }

    /// Whose approvals of it count.
    pub(super) fn approved_by(&self) -> Vec<String> {
        let annotation = |name| self.config.annotations().get(name).map(String::as_str);
        // What cannot be read is no approval to the operator either.
        let approvals = Approvals::parse(annotation(names::APPROVALS)).unwrap_or_default();
        approval::counted(
            &self.config.spec,
            &self.plan.digest,
            self.plan.impact,
            &approvals,
            annotation(names::AUTHOR),
        )
    }
}

/// Plans a configuration.
pub(super) async fn plan(
    source: &Source,
    registry: &Registry,
    config: VirtPlatformConfig,
) -> anyhow::Result<Attempt> {
    let (draft, snapshot) = match draft(source, registry, &config).await? {
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
    Ok(match plan::assemble(draft, &previews, &applied) {
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

/// What has to be done, before the server has been asked, with what was looked at; or why nothing can.
pub(super) async fn draft(
    source: &Source,
    registry: &Registry,
    config: &VirtPlatformConfig,
) -> anyhow::Result<Result<(Draft, Snapshot), String>> {
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
    let facts = Facts {
        config,
        profile: profile.map(|profile| &**profile),
        snapshot: &snapshot,
        records: &records,
        // A plan is the same whoever may approve it.
        approvals_recorded: false,
        version: version::OPERATOR,
        now: Timestamp::now(),
    };
    Ok(match plan::draft(&facts) {
        Ok(draft) => Ok((draft, snapshot)),
        Err(problem) => Err(problem.message()),
    })
}
