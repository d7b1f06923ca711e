//! Planning by the operator's own engine, without changing anything.

use ::governance::decide::DecisionInputs;
use ::governance::hash::PlanTerms;
use ::governance::plan::{self, Draft, Plan, Preview};
use ::governance::recorder::Recorder;
use ::governance::user_patches;
use ::governance::{Registry, Snapshot};
use anyhow::Context as _;
use api::advisor::{ApprovalRequirement, Phase, VirtPlatformConfig};
use clap::Args;
use cluster_view::history;
use controllers::Job;
use controllers::governance::{cluster, preview};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, ResourceExt as _};

use super::configs::configs;
use super::selection::SelectionArguments;
use super::source::SourceArguments;
use crate::controller::ControllerArguments;
use crate::version;

/// Which configurations to plan, and on which cluster.
#[derive(Debug, Args)]
pub(super) struct PlanningArguments {
    #[command(flatten)]
    selection: SelectionArguments,

    #[command(flatten)]
    source: SourceArguments,
}

/// An opened cluster, or a copy of one.
pub(super) struct Planner {
    client: Client,
    history_namespace: String,
    registry: Registry,
}

impl PlanningArguments {
    /// Whether a single configuration is selected.
    pub(super) fn is_single(&self) -> bool {
        self.selection.is_single()
    }

    /// Opens the cluster, and reads the selected configurations.
    pub(super) async fn open(&self) -> anyhow::Result<(Planner, Vec<VirtPlatformConfig>)> {
        let client = self.source.open().await?;
        let planner = Planner {
            registry: edits::registry_of(&client).await?,
            history_namespace: self.source.history_namespace().to_owned(),
            client,
        };
        let configs = configs(&planner.client);
        let selected = self.selection.find(&configs, &planner.registry).await?;
        Ok((planner, selected))
    }

    /// Plans the selected configurations. With `renew`, the operator discards its plans of them.
    pub(super) async fn plan(
        &self,
        renew: Option<&ControllerArguments>,
    ) -> anyhow::Result<Vec<Attempt>> {
        let (planner, selected) = self.open().await?;
        if let Some(controller) = renew {
            controller
                .check(&planner.client, Job::Governance, true)
                .await?;
            for config in &selected {
                configs(&planner.client).renew(config).await?;
            }
        }
        let mut attempts = Vec::new();
        for config in selected {
            attempts.push(planner.plan(config).await?);
        }
        Ok(attempts)
    }
}

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
        user_patches::approved_by(&self.config, &self.plan.digest)
    }
}

impl Planner {
    /// Plans a configuration.
    async fn plan(&self, config: VirtPlatformConfig) -> anyhow::Result<Attempt> {
        let impossible = |config, why| Attempt::Impossible {
            config: Box::new(config),
            why,
        };
        let (draft, snapshot, terms) = match self.draft(&config).await? {
            Ok(drafted) => drafted,
            Err(why) => return Ok(impossible(config, why)),
        };
        let previews = preview::preview_all(&self.client, &snapshot, &draft.items)
            .await
            .with_context(|| format!("planning {}", config.name_any()))?;
        let applied = config.status.clone().unwrap_or_default().applied;
        Ok(match plan::assemble(draft, &previews, &applied, &terms) {
            Ok(plan) => Attempt::Planned(Box::new(Planned {
                config,
                plan,
                previews,
            })),
            Err(why) => impossible(config, why),
        })
    }

    /// The plan before dry runs, with the objects it was derived from; or why there is none.
    pub(super) async fn draft(
        &self,
        config: &VirtPlatformConfig,
    ) -> anyhow::Result<Result<(Draft, Snapshot, PlanTerms), String>> {
        let name = config.name_any();
        let what = || format!("planning {name}");
        let profile = self.registry.get(&config.spec.profile);
        let snapshot = match profile {
            Some(profile) => cluster::look(&self.client, profile.uses())
                .await
                .with_context(what)?,
            None => Snapshot::default(),
        };
        let records = history::records(&self.client, &self.history_namespace, &name)
            .await
            .with_context(what)?;
        let inputs = DecisionInputs {
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
        Ok(match plan::draft(&inputs) {
            Ok(draft) => {
                let terms = plan::terms(&inputs, plan::next_revision(&inputs));
                Ok((draft, snapshot, terms))
            }
            Err(problem) => Err(problem.message()),
        })
    }
}
