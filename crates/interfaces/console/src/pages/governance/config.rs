//! One configuration: its phase and why, its plan, drift, and history.

use ::governance::Profile;
use ::governance::explain::explain;
use ::governance::record::{PlanResult, Record};
use ::governance::user_patches::{self, in_force};
use ::governance::values::short;
use api::advisor::{Action, DriftClass, Impact, Phase, VirtPlatformConfig};
use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use cluster_view::history::records;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt as _;
use machinery::time::format_time;
use serde::Deserialize;

use super::item::{ItemView, impact_class};
use super::{PATH, Page, is_unhealthy, level, phase_word, progress};
use crate::error::Problem;
use crate::layout::Layout;
use crate::pages::{Level, short_digest};
use crate::permissions::Permission;
use crate::visitor::Visitor;

/// How diffs are shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct View {
    #[serde(default)]
    view: Option<String>,
}

impl View {
    /// Whether diffs are side by side.
    pub(super) fn is_split(&self) -> bool {
        self.view.as_deref() == Some("split")
    }
}

/// Permissions of the user on this page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct May {
    pub(super) edit: bool,
    pub(super) approve: bool,
    /// Adopt all drift.
    pub(super) adopt_all: bool,
}

/// A drifted field.
struct DriftView {
    item: String,
    path: String,
    applied: String,
    live: String,
    by: String,
    since: String,
    why: &'static str,
    /// Whether it was changed manually, an option covers it, and the user may set that.
    can_adopt: bool,
}

/// An applied plan.
pub(super) struct RecordView {
    pub(super) revision: i64,
    pub(super) digest: String,
    pub(super) impact: Impact,
    pub(super) by: String,
    pub(super) started: String,
    pub(super) finished: String,
    pub(super) outcome: &'static str,
    pub(super) level: Level,
    pub(super) what: String,
    pub(super) in_force: bool,
}

#[derive(Template)]
#[template(path = "config.html")]
struct ConfigPage {
    layout: Layout,
    name: String,
    description: String,
    phase: &'static str,
    level: Level,
    /// The badge beside the phase, if there is one.
    health: Option<&'static str>,
    impact: Option<Impact>,
    action: Action,
    state: String,
    because: Vec<String>,
    next: Vec<String>,
    warnings: Vec<String>,
    inputs: Vec<String>,
    items: Vec<ItemView>,
    split: bool,
    /// Digest of the plan that can be approved or rejected.
    review: Option<String>,
    approvals: Vec<String>,
    done: usize,
    is_running: bool,
    can_plan: bool,
    drift: Vec<DriftView>,
    history: Result<Vec<RecordView>, String>,
    rolled_back: Option<i64>,
    may: May,
}

impl ConfigPage {
    fn impact_class(&self) -> &'static str {
        impact_class(self.impact)
    }

    /// Whether a single drifted field can be adopted.
    fn can_adopt_some(&self) -> bool {
        self.drift.iter().any(|one| one.can_adopt)
    }

    /// Whether there are takeovers that need consent.
    fn takes(&self) -> bool {
        let takeovers = self.items.iter().flat_map(|item| &item.takeovers);
        takeovers.filter(|it| !it.reclaimed).count() > 0
    }
}

/// One configuration.
pub(super) async fn find(visitor: &Visitor, name: &str) -> Result<VirtPlatformConfig, Problem> {
    let all = visitor.viewer().all::<VirtPlatformConfig>().await?;
    let found = all.iter().find(|config| config.name_any() == name);
    found.map(|config| (**config).clone()).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|config| config.name_any()).collect();
        Problem::missing(format!(
            "There is no VirtPlatformConfig {name}; {}.",
            user_patches::list_valid_names(&names)
        ))
    })
}

/// Permissions of the user on configurations.
pub(super) async fn may(visitor: &Visitor) -> May {
    let edit = Permission::to::<VirtPlatformConfig>("patch", None);
    let approve = Permission::to::<VirtPlatformConfig>(::governance::admission::APPROVE_VERB, None);
    let viewer = visitor.viewer();
    let (edit, approve) = tokio::join!(viewer.may(&edit), viewer.may(&approve));
    May {
        edit,
        // An approval is a patch of the spec, and needs both permissions. The webhook checks the
        // verb again; this only decides which buttons are shown.
        approve: edit && approve,
        ..May::default()
    }
}

pub(super) async fn show(
    visitor: Visitor,
    Path(name): Path<String>,
    Query(view): Query<View>,
) -> Result<Response, Problem> {
    let config = find(&visitor, &name).await?;
    let (may, history) = tokio::join!(may(&visitor), history(&visitor, &name));
    let registry = edits::registry()?;
    let profile = registry.get(&config.spec.profile).map(|it| &**it);
    let adopts = |path: Option<&str>| may_adopt(profile, &config, path, may);
    let status = config.status.clone().unwrap_or_default();
    let explained = explain(&config);
    let split = view.is_split();
    let review = user_patches::under_review(&config).ok();
    let review = review.map(|(_, digest)| digest.to_owned());
    let (done, _) = progress(&status);
    let phase = status.phase;
    Page::html(&ConfigPage {
        layout: visitor.layout(name.clone(), PATH),
        description: profile.map_or_else(String::new, |it| it.about().description.to_owned()),
        phase: phase_word(phase),
        level: level(&status),
        health: is_unhealthy(&status).then_some("Unhealthy"),
        impact: status.impact_severity,
        action: config.spec.action,
        state: explained.state,
        because: explained.because,
        next: explained.next,
        warnings: status.warnings.clone(),
        inputs: status.inputs.iter().map(input).collect(),
        items: status
            .items
            .iter()
            .map(|item| ItemView::new(item, split))
            .collect(),
        split,
        approvals: approvals(&config, review.as_deref()),
        review,
        done,
        is_running: phase == Some(Phase::InProgress),
        // A renewal would discard the plan that is being computed or applied in these phases.
        can_plan: !matches!(
            phase,
            None | Some(Phase::Pending | Phase::Drafting | Phase::InProgress)
        ),
        drift: drift(&config, &adopts),
        history: history.map(|records| history_views(&records)),
        rolled_back: config.spec.rollback_to,
        may: May {
            adopt_all: adopts(None),
            ..may
        },
        name,
    })
}

/// The required approvals, as sentences; empty if none is required.
fn approvals(config: &VirtPlatformConfig, digest: Option<&str>) -> Vec<String> {
    let Some(digest) = digest else {
        return Vec::new();
    };
    let requirements = ::governance::user_patches::approved_by(config, digest).into_iter();
    requirements
        .map(|(requirement, by)| {
            let groups = requirement.groups.join(" or ");
            format!(
                "{} requires {} approval{}{}, and the plan has {}{}.",
                requirement.source,
                requirement.approvals,
                if requirement.approvals == 1 { "" } else { "s" },
                if groups.is_empty() {
                    groups
                } else {
                    format!(" by members of {groups}")
                },
                by.len(),
                if by.is_empty() {
                    String::new()
                } else {
                    format!(" (by {})", by.join(", "))
                },
            )
        })
        .collect()
}

fn input(input: &api::advisor::Input) -> String {
    format!(
        "{} is {}: {} of {} is {}",
        input.name,
        short(Some(&input.derived)),
        input.path,
        input.object,
        short(input.raw.as_ref()),
    )
}

/// Whether the user may turn drift into options: all of it, or one field. Where the change is
/// applied without review, only approvers may; where it becomes a plan for review, editors may,
/// too.
fn may_adopt(
    profile: Option<&dyn Profile>,
    config: &VirtPlatformConfig,
    path: Option<&str>,
    may: May,
) -> bool {
    let adoption = profile.and_then(|it| user_patches::adopt(it, config, path).ok());
    adoption.is_some_and(|adoption| {
        let changes_applied =
            config.spec.action == Action::Apply && !adoption.is_for_review(config);
        may.approve || (may.edit && !changes_applied)
    })
}

fn drift(config: &VirtPlatformConfig, adopts: &impl Fn(Option<&str>) -> bool) -> Vec<DriftView> {
    let status = config.status.clone().unwrap_or_default();
    let views = status.drift.into_iter().map(|drift| DriftView {
        applied: short(drift.applied.as_ref()),
        live: short(drift.live.as_ref()),
        by: drift.manager.unwrap_or_default(),
        since: drift
            .time
            .map(|time| format_time(time.0))
            .unwrap_or_default(),
        why: match drift.class {
            DriftClass::ExternalEdit => "Changed manually",
            DriftClass::InputChange => "Its inputs changed",
            DriftClass::LogicUpgrade => "This version plans differently",
            DriftClass::CapabilityChange => "A CustomResourceDefinition changed",
        },
        // Only a manual edit is a wish that an option could express; the other classes come from
        // the cluster or from this version.
        can_adopt: drift.class == DriftClass::ExternalEdit && adopts(Some(&drift.path)),
        item: drift.item,
        path: drift.path,
    });
    views.collect()
}

/// The applied plans, oldest first; or why they are not shown.
pub(super) async fn history(visitor: &Visitor, name: &str) -> Result<Vec<Record>, String> {
    let namespace = visitor.namespace();
    let permission = Permission::to::<ControllerRevision>("list", Some(namespace));
    // The records are in the namespace of the operator, which readers of configurations need not
    // see. The rest of the page does not depend on them.
    if !visitor.viewer().may(&permission).await {
        return Err(format!(
            "Your account may not read the history: it needs permission to list controllerrevisions in namespace {namespace}, which the role medley-history-viewer grants."
        ));
    }
    let found = records(visitor.client(), namespace, name).await;
    found.map_err(|error| error.to_string())
}

/// The newest first.
fn history_views(records: &[Record]) -> Vec<RecordView> {
    let in_force = in_force(records);
    let views = records.iter().rev();
    views
        .map(|record| RecordView::new(record, in_force.contains(&record.revision)))
        .collect()
}

impl RecordView {
    pub(super) fn new(record: &Record, in_force: bool) -> Self {
        let outcome = record.outcome.as_ref();
        let (word, level) = match outcome.map(|it| it.result) {
            None => ("Under way", Level::Busy),
            Some(PlanResult::Completed) => ("Completed", Level::Good),
            Some(PlanResult::CompletedWithErrors) => ("Completed with errors", Level::Bad),
            Some(PlanResult::Failed) => ("Failed", Level::Bad),
            Some(PlanResult::Superseded) => ("Superseded", Level::Warn),
        };
        let items: Vec<&str> = record.items.iter().map(|item| item.name.as_str()).collect();
        Self {
            revision: record.revision,
            digest: short_digest(&record.plan_digest),
            impact: record.impact,
            by: record.approved_by.join(", "),
            started: format_time(record.started.0),
            finished: outcome
                .map(|it| format_time(it.finished.0))
                .unwrap_or_default(),
            outcome: word,
            level,
            what: match (record.rollback_to, record.correction) {
                (Some(to), _) => format!("Reverted revision {to} and later"),
                (None, true) => format!("Restored {}", items.join(", ")),
                (None, false) => items.join(", "),
            },
            in_force,
        }
    }
}
