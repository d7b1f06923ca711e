//! Release migration: the progress of the cluster towards a release, and whether it is complete.

use std::time::Duration;

use ::release_migration::eta::UpdateDurations;
use ::release_migration::history::KnownPayloads;
use ::release_migration::report::{
    Assessment, Cluster, Level as Weight, OperatorReport, PoolAssessment, PoolReport, Report,
};
use api::openshift::{CLUSTER_VERSION, ClusterOperator, ClusterVersion, MachineConfigPool};
use api::release::ReleasePolicy;
use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use cluster_view::policies;
use cluster_view::release::{rendered_configurations, running_machine_config_image};
use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use machinery::time::human_duration;

use super::{Level, Notice, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Shown, Unavailable, Viewer, shown};
use crate::visitor::Visitor;

/// Path of the page.
const PATH: &str = "/release";

pub(crate) const PAGE: Page = Page {
    path: PATH,
    label: "Release",
    icon: "M12 17V4M7 9l5-5 5 5M5 21h14",
    kinds: &[
        "clusterversions",
        "clusteroperators",
        "machineconfigpools",
        "nodes",
        "releasepolicies",
    ],
    routes: || Router::new().route("/release", get(show)),
    standing: Some(|viewer| standing(viewer).boxed()),
};

/// Timeout of reads that are not cached.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Nodes listed per pool.
const MAX_LISTED: usize = 50;

impl Shown for ClusterVersion {}
impl Shown for ClusterOperator {}
impl Shown for MachineConfigPool {}
impl Shown for ReleasePolicy {}

/// One operator.
struct Operator {
    name: String,
    level: Level,
    state: &'static str,
    since: String,
    message: String,
    /// Whether it reports its image, so that its completion can be verified.
    reports_image: bool,
    /// Missing versions, and why.
    undone: Vec<String>,
}

/// One machine config pool.
struct Pool {
    name: String,
    level: Level,
    state: &'static str,
    updated: usize,
    total: usize,
    machines: Vec<NodeLine>,
    more: usize,
}

struct NodeLine {
    name: String,
    architecture: String,
    version: String,
    phase: String,
    message: String,
}

/// A remark of the report.
struct Remark {
    level: Level,
    impact: &'static str,
    message: String,
    since: String,
}

struct PageData {
    level: Level,
    assessment: &'static str,
    target: String,
    image: String,
    updated: usize,
    total: usize,
    percent: usize,
    duration: String,
    /// Estimated time to completion, if known.
    remaining: Option<String>,
    remarks: Vec<Remark>,
    adoption: String,
    /// Operators that do not report images, so that a change of images within one version cannot be
    /// verified.
    silent: Vec<String>,
    operators: Vec<Operator>,
    pools: Vec<Pool>,
    history: Vec<(String, String, String, String)>,
}

#[derive(Template)]
#[template(path = "release.html")]
struct Release {
    layout: Layout,
    data: Result<PageData, Unavailable>,
}

async fn show(visitor: Visitor) -> Result<Response, Problem> {
    let found = shown(look(visitor.viewer()).await)?;
    Page::html(&Release {
        layout: visitor.layout("Release migration", PATH),
        data: found.map(|(version, report)| data(&version, &report, Timestamp::now())),
    })
}

/// The release status that a user sees.
async fn look(viewer: &Viewer) -> Result<(ClusterVersion, Report), Unavailable> {
    let versions = viewer.all::<ClusterVersion>().await?;
    let version = versions.iter().find(|it| it.name_any() == CLUSTER_VERSION);
    let Some(version) = version else {
        return Err(Unavailable::Failed(format!(
            "There is no ClusterVersion {CLUSTER_VERSION}: the release of the cluster is unknown."
        )));
    };
    let client = viewer.client();
    let (operators, pools, nodes, policies, configurations, image) = tokio::join!(
        viewer.all::<ClusterOperator>(),
        viewer.all::<MachineConfigPool>(),
        viewer.all::<Node>(),
        viewer.all::<ReleasePolicy>(),
        in_time(rendered_configurations(client)),
        in_time(running_machine_config_image(client)),
    );
    let (operators, pools) = (operators.unwrap_or_default(), pools.unwrap_or_default());
    let nodes = nodes.unwrap_or_default();
    let operators: Vec<ClusterOperator> = operators.iter().map(|it| (**it).clone()).collect();
    let pools: Vec<MachineConfigPool> = pools.iter().map(|it| (**it).clone()).collect();
    let policies = policies.unwrap_or_default();
    let policy = policies::find(policies.iter().map(|it| &**it));
    let nodes: Vec<&Node> = nodes.iter().map(|it| &**it).collect();
    let report = Report::of(&Cluster {
        version,
        operators: &operators,
        pools: &pools,
        nodes: &nodes,
        configurations: &configurations,
        plan: None,
        machine_config_image: image.as_deref(),
        evidence: &[],
        known: &KnownPayloads::of(version),
        past: &UpdateDurations::of_policy(policy),
        now: Timestamp::now(),
    });
    Ok(((**version).clone(), report))
}

/// A read that is not cached. Without permission, or if it takes too long, less is known.
async fn in_time<T: Default>(read: impl Future<Output = Result<T, runtime::Error>>) -> T {
    let found = tokio::time::timeout(READ_TIMEOUT, read).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

fn data(version: &ClusterVersion, report: &Report, now: Timestamp) -> PageData {
    let control = &report.control_plane;
    let since = |time: Option<Timestamp>| {
        time.map(|it| human_duration(now.duration_since(it)))
            .unwrap_or_default()
    };
    let remarks = report.health.iter().map(|it| Remark {
        level: match it.level {
            Weight::Info => Level::Good,
            Weight::Warning => Level::Warn,
            Weight::Error => Level::Bad,
        },
        impact: it.impact,
        message: it.message.clone(),
        since: since(it.since),
    });
    let mut operators: Vec<Operator> = control
        .operators
        .iter()
        .map(|it| operator(it, since(it.since)))
        .collect();
    // The worst first.
    operators.sort_by(|one, other| other.level.cmp(&one.level).then(one.name.cmp(&other.name)));
    let pools = control.pools.iter().chain(&report.workers);
    let history = version.history().iter().take(10).map(|it| {
        let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
            time.as_ref()
                .map(|it| it.0.strftime("%Y-%m-%d %H:%M").to_string())
                .unwrap_or_default()
        };
        (
            it.version.clone(),
            it.state.clone(),
            time(&it.started_time),
            time(&it.completion_time),
        )
    });
    PageData {
        level: level(control.assessment),
        assessment: control.assessment.word(),
        target: control.target.text.clone(),
        image: control.target.image.clone(),
        updated: control.completion.updated,
        total: control.completion.total,
        percent: control.completion.percent,
        duration: control.duration.map(human_duration).unwrap_or_default(),
        remaining: control
            .remaining
            .map(|it| format!("about {}", human_duration(it.remaining))),
        remarks: remarks.collect(),
        adoption: report.adoption.to_string(),
        silent: report.adoption.silent.clone(),
        operators,
        pools: pools.map(pool).collect(),
        history: history.collect(),
    }
}

fn level(assessment: Assessment) -> Level {
    match assessment {
        Assessment::Completed => Level::Good,
        Assessment::Progressing => Level::Busy,
        Assessment::Slow | Assessment::Early => Level::Warn,
        Assessment::Stalled => Level::Bad,
    }
}

fn operator(report: &OperatorReport, since: String) -> Operator {
    let (level, state) = match report {
        it if !it.available => (Level::Bad, "Unavailable"),
        it if it.degraded => (Level::Bad, "Degraded"),
        it if it.updated => (Level::Good, "Arrived"),
        it if it.progressing => (Level::Busy, "Updating"),
        _ => (Level::Busy, "Waiting"),
    };
    let undone = report.undone.iter().map(|it| it.message.clone());
    Operator {
        name: report.name.clone(),
        level,
        state,
        since,
        message: report.message.clone(),
        reports_image: report.reports_image,
        undone: undone.collect(),
    }
}

fn pool(report: &PoolReport) -> Pool {
    let (level, state) = match report.assessment {
        PoolAssessment::Degraded => (Level::Bad, "Degraded"),
        PoolAssessment::Completed => (Level::Good, "Arrived"),
        PoolAssessment::Excluded => (Level::Warn, "Paused"),
        PoolAssessment::Progressing => (Level::Busy, "Updating"),
        PoolAssessment::Pending => (Level::Busy, "Waiting"),
    };
    let machines = report.nodes.iter().take(MAX_LISTED).map(|it| NodeLine {
        name: it.name.clone(),
        architecture: it.architecture.clone(),
        version: it.version.clone(),
        phase: format!("{:?}", it.phase),
        message: it.message.clone(),
    });
    Pool {
        name: report.name.clone(),
        level,
        state,
        updated: report.updated,
        total: report.total,
        machines: machines.collect(),
        more: report.nodes.len().saturating_sub(MAX_LISTED),
    }
}

/// State of the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let (_, report) = look(viewer).await.ok()?;
    let control = &report.control_plane;
    let level = level(control.assessment);
    let completion = &control.completion;
    let text = match control.assessment {
        Assessment::Completed => None,
        Assessment::Progressing => Some("the update is in progress.".to_owned()),
        Assessment::Slow => Some("the update is in progress, but slow.".to_owned()),
        Assessment::Stalled => Some("the update is stalled.".to_owned()),
        Assessment::Early => {
            Some("the cluster reports completion, but is not complete.".to_owned())
        }
    };
    let notices = text.map(|text| Notice {
        level,
        subject: control.target.version.clone(),
        text: format!(
            "{} of {} operators have completed; {text}",
            completion.updated, completion.total
        ),
        href: PATH.to_owned(),
    });
    Some(Standing {
        headline: format!("{}, {}", control.target.version, control.assessment.word()),
        notices: notices.into_iter().collect(),
        more: 0,
    })
}
