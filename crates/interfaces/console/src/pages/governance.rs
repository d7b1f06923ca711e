//! Governance: profiles, plans under review, applied plans, drift and history.

mod act;
mod config;
mod diff;
mod item;
mod revision;

use std::sync::Arc;

use ::governance::Registry;
use ::governance::conditions::{self, HEALTHY};
use api::advisor::{Impact, ItemState, Phase, VirtPlatformConfig, VirtPlatformConfigStatus};
use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use futures::FutureExt as _;
use kube::ResourceExt as _;

use super::{Level, Notice, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Shown, Unavailable, Viewer, shown};
use crate::visitor::Visitor;

/// Path of the page.
const PATH: &str = "/governance";

pub(crate) const PAGE: Page = Page {
    path: PATH,
    label: "Governance",
    icon: "M9 4h6v3H9zM15 5.5h3V20H6V5.5h3M9 12l2 2 4-4M9 17h6",
    kinds: &["virtplatformconfigs"],
    routes: || {
        Router::new()
            .route("/governance", get(list))
            .route("/governance/{name}", get(config::show))
            .route("/governance/{name}/history/{revision}", get(revision::show))
            .route("/governance/{name}/{action}", post(act::act))
    },
    standing: Some(|viewer| standing(viewer).boxed()),
};

impl Shown for VirtPlatformConfig {}

/// One row of the list.
struct Line {
    name: String,
    description: String,
    level: Level,
    phase: &'static str,
    impact: Option<Impact>,
    action: String,
    /// Completed items, and all items.
    progress: Option<(usize, usize)>,
    drift: usize,
    unhealthy: bool,
}

#[derive(Template)]
#[template(path = "governance.html")]
struct Governance {
    layout: Layout,
    lines: Result<Vec<Line>, Unavailable>,
}

async fn list(visitor: Visitor) -> Result<Response, Problem> {
    let configs = visitor.viewer().all::<VirtPlatformConfig>().await;
    let configs = shown(configs)?;
    let registry = edits::registry()?;
    Page::html(&Governance {
        layout: visitor.layout("Governance", PATH),
        lines: configs.map(|configs| {
            let mut lines: Vec<Line> = configs.iter().map(|it| line(&registry, it)).collect();
            // The worst first.
            lines.sort_by(|one, other| other.level.cmp(&one.level).then(one.name.cmp(&other.name)));
            lines
        }),
    })
}

fn line(registry: &Registry, config: &VirtPlatformConfig) -> Line {
    let status = config.status.clone().unwrap_or_default();
    let profile = registry.get(&config.spec.profile);
    Line {
        name: config.name_any(),
        description: profile.map_or_else(String::new, |it| it.about().description.to_owned()),
        level: level(&status),
        phase: phase_word(status.phase),
        impact: status.impact_severity,
        action: format!("{:?}", config.spec.action),
        progress: (status.phase == Some(Phase::InProgress)).then(|| progress(&status)),
        drift: status.drift.len(),
        unhealthy: is_unhealthy(&status),
    }
}

/// Completed items, and all items.
fn progress(status: &VirtPlatformConfigStatus) -> (usize, usize) {
    let done = status.items.iter();
    let done = done.filter(|item| item.state == ItemState::Completed);
    (done.count(), status.items.len())
}

/// Whether an operator reports a fault of what is in force.
fn is_unhealthy(status: &VirtPlatformConfigStatus) -> bool {
    conditions::get(&status.conditions, HEALTHY).is_some_and(|it| it.status == "False")
}

/// Severity of a phase, and of what operators report.
fn level(status: &VirtPlatformConfigStatus) -> Level {
    match status.phase {
        _ if is_unhealthy(status) => Level::Bad,
        None | Some(Phase::Pending | Phase::Drafting | Phase::InProgress) => Level::Busy,
        Some(Phase::Completed | Phase::Ignored) => Level::Good,
        Some(
            Phase::ReviewRequired
            | Phase::CompletedWithUpgrade
            | Phase::Drifted
            | Phase::PrerequisiteFailed,
        ) => Level::Warn,
        Some(Phase::Failed | Phase::CompletedWithErrors) => Level::Bad,
    }
}

/// Text of a phase.
fn phase_word(phase: Option<Phase>) -> &'static str {
    match phase {
        None => "Not reconciled yet",
        Some(Phase::Pending) => "Pending",
        Some(Phase::Drafting) => "Making a plan",
        Some(Phase::PrerequisiteFailed) => "Prerequisites missing",
        Some(Phase::ReviewRequired) => "Waits for review",
        Some(Phase::InProgress) => "Being applied",
        Some(Phase::Completed) => "In force",
        Some(Phase::CompletedWithErrors) => "In force, with errors",
        Some(Phase::CompletedWithUpgrade) => "In force, newer plan available",
        Some(Phase::Failed) => "Failed",
        Some(Phase::Drifted) => "Drifted",
        Some(Phase::Ignored) => "Ignored",
    }
}

/// State of the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let configs: Vec<Arc<VirtPlatformConfig>> = viewer.all().await.ok()?;
    let count = |phase: Phase| {
        let of = |config: &&Arc<VirtPlatformConfig>| {
            config.status.as_ref().and_then(|status| status.phase) == Some(phase)
        };
        configs.iter().filter(of).count()
    };
    let in_force = count(Phase::Completed)
        + count(Phase::CompletedWithErrors)
        + count(Phase::CompletedWithUpgrade)
        + count(Phase::Drifted);
    let notices = configs.iter().filter_map(|config| {
        let status = config.status.clone().unwrap_or_default();
        let level = level(&status);
        let text = match status.phase? {
            // Pending and drafting pass by themselves, and a notice would only flicker.
            Phase::Completed if is_unhealthy(&status) => {
                "is in force, and an operator reports a fault.".to_owned()
            }
            Phase::Completed | Phase::Ignored | Phase::Pending | Phase::Drafting => return None,
            Phase::PrerequisiteFailed => "lacks prerequisites.".to_owned(),
            Phase::ReviewRequired => {
                let impact = status.impact_severity.unwrap_or(Impact::Low);
                format!(
                    "has a plan of {} impact that waits for review.",
                    impact.as_str().to_lowercase()
                )
            }
            Phase::InProgress => {
                let (done, all) = progress(&status);
                format!("is being applied: {done} of {all} items are done.")
            }
            Phase::CompletedWithErrors => "is in force, but for items that failed.".to_owned(),
            Phase::CompletedWithUpgrade => {
                "would be planned differently by this version.".to_owned()
            }
            Phase::Failed => "was not applied.".to_owned(),
            Phase::Drifted => match status.drift.len() {
                1 => "drifted: an applied field was changed.".to_owned(),
                count => format!("drifted: {count} applied fields were changed."),
            },
        };
        Some(Notice {
            level,
            subject: config.name_any(),
            text,
            href: format!("{}/{}", PATH, config.name_any()),
        })
    });
    Some(Standing {
        headline: match (configs.len(), count(Phase::ReviewRequired)) {
            (1, 0) => format!("1 profile, {in_force} in force"),
            (all, 0) => format!("{all} profiles, {in_force} in force"),
            (all, wait) => format!("{all} profiles, {in_force} in force, {wait} to review"),
        },
        notices: notices.collect(),
        more: 0,
    })
}
