//! Release migration: where the cluster is on its way to a release, and whether it has truly arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use ::release_migration::eta::Past;
use ::release_migration::history::KnownPayloads;
use ::release_migration::report::{
    Assessment, Cluster, Level as Weight, OperatorReport, PoolAssessment, PoolReport, Report,
    machine_config_image, rendered_for,
};
use api::openshift::{CLUSTER_VERSION, ClusterOperator, ClusterVersion, MachineConfigPool};
use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use machinery::time::human_duration;

use super::{Level, Notice, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Shown, Unseen, Viewer};
use crate::visitor::Visitor;

/// Where it is.
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
    ],
    routes: || Router::new().route("/release", get(show)),
    standing: Some(|viewer| standing(viewer).boxed()),
};

/// How long what is not kept may take to be read.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many machines of a pool are listed.
const LISTED: usize = 50;

impl Shown for ClusterVersion {}
impl Shown for ClusterOperator {}
impl Shown for MachineConfigPool {}

/// One operator.
struct Operator {
    name: String,
    level: Level,
    state: &'static str,
    since: String,
    message: String,
    /// Whether it can be believed to have arrived.
    reports_image: bool,
    /// What it does not report, and why.
    undone: Vec<String>,
}

/// One pool of machines.
struct Pool {
    name: String,
    level: Level,
    state: &'static str,
    updated: usize,
    total: usize,
    machines: Vec<Machine>,
    more: usize,
}

struct Machine {
    name: String,
    architecture: String,
    version: String,
    phase: String,
    message: String,
}

/// Something that is worth a remark.
struct Remark {
    level: Level,
    impact: &'static str,
    message: String,
    since: String,
}

struct Seen {
    level: Level,
    assessment: &'static str,
    target: String,
    image: String,
    updated: usize,
    total: usize,
    percent: usize,
    duration: String,
    /// When it will have arrived, if anybody knows.
    remaining: Option<String>,
    remarks: Vec<Remark>,
    adoption: String,
    /// Operators of which nobody can say that they arrived at other images of the same version.
    silent: Vec<String>,
    operators: Vec<Operator>,
    pools: Vec<Pool>,
    history: Vec<(String, String, String, String)>,
}

#[derive(Template)]
#[template(path = "release.html")]
struct Release {
    layout: Layout,
    seen: Result<Seen, Unseen>,
}

async fn show(visitor: Visitor) -> Result<Response, Problem> {
    let seen = match look(visitor.viewer()).await {
        Err(Unseen::SignedOut) => return Err(Unseen::SignedOut.into()),
        Err(unseen) => Err(unseen),
        Ok((version, report)) => Ok(seen(&version, &report, Timestamp::now())),
    };
    Page::html(&Release {
        layout: visitor.layout("Release migration", PATH),
        seen,
    })
}

/// What a user sees of the way to a release.
async fn look(viewer: &Viewer) -> Result<(ClusterVersion, Report), Unseen> {
    let versions = viewer.all::<ClusterVersion>().await?;
    let version = versions.iter().find(|it| it.name_any() == CLUSTER_VERSION);
    let Some(version) = version else {
        return Err(Unseen::Failed(format!(
            "There is no ClusterVersion {CLUSTER_VERSION}: the cluster does not say which release it runs."
        )));
    };
    let (operators, pools, nodes, configurations, image) = tokio::join!(
        viewer.all::<ClusterOperator>(),
        viewer.all::<MachineConfigPool>(),
        viewer.all::<Node>(),
        configurations(viewer),
        running_image(viewer),
    );
    let (operators, pools) = (operators.unwrap_or_default(), pools.unwrap_or_default());
    let nodes = nodes.unwrap_or_default();
    let operators: Vec<ClusterOperator> = operators.iter().map(|it| (**it).clone()).collect();
    let pools: Vec<MachineConfigPool> = pools.iter().map(|it| (**it).clone()).collect();
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
        past: &Past::default(),
        now: Timestamp::now(),
    });
    Ok(((**version).clone(), report))
}

/// The release that rendered configurations of machines came with, by name. They are large and change
/// rarely, so they are asked for and not kept; who may not see them knows less of machines.
async fn configurations(viewer: &Viewer) -> BTreeMap<String, String> {
    let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "MachineConfig");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(viewer.client().clone(), &resource);
    let all = ListParams::default();
    let found = tokio::time::timeout(PATIENCE, api.list_metadata(&all)).await;
    let found = found.ok().and_then(Result::ok);
    let found = found.map(|it| it.items).unwrap_or_default();
    rendered_for(found.iter().map(|it| &it.metadata))
}

/// What the operator of machines was told to run.
async fn running_image(viewer: &Viewer) -> Option<String> {
    let (namespace, name) = ::release_migration::report::MACHINE_CONFIG_OPERATOR;
    let api: Api<Deployment> = Api::namespaced(viewer.client().clone(), namespace);
    let found = tokio::time::timeout(PATIENCE, api.get_opt(name)).await;
    machine_config_image(&found.ok()?.ok()??)
}

fn seen(version: &ClusterVersion, report: &Report, now: Timestamp) -> Seen {
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
    // What somebody should look at comes first.
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
    Seen {
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
    let machines = report.nodes.iter().take(LISTED).map(|it| Machine {
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
        more: report.nodes.len().saturating_sub(LISTED),
    }
}

/// How it is with the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let (_, report) = look(viewer).await.ok()?;
    let control = &report.control_plane;
    let level = level(control.assessment);
    let completion = &control.completion;
    let text = match control.assessment {
        Assessment::Completed => None,
        Assessment::Progressing => Some("the cluster is on its way.".to_owned()),
        Assessment::Slow => Some("the cluster is on its way, but slowly.".to_owned()),
        Assessment::Stalled => Some("the cluster does not get on.".to_owned()),
        Assessment::Early => Some("the cluster says to have arrived, and has not.".to_owned()),
    };
    let notices = text.map(|text| Notice {
        level,
        subject: control.target.version.clone(),
        text: format!(
            "{} of {} operators have arrived; {text}",
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
