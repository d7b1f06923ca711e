//! Virtual machines, and a wizard to create one that begins with the architecture.

mod build;
mod wizard;

use std::collections::BTreeMap;

use api::kubevirt::{VirtualMachine, VirtualMachineInstance};
use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use super::{Level, Page};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Shown, Unavailable, shown};
use crate::visitor::Visitor;

/// Path of the page.
const PATH: &str = "/machines";

pub(crate) const PAGE: Page = Page {
    path: PATH,
    label: "VMs",
    icon: "M4 5h16v11H4zM9 20h6M12 16v4",
    kinds: &[
        "virtualmachines",
        "virtualmachineinstances",
        "datasources",
        "nodes",
    ],
    routes: || {
        Router::new()
            .route("/machines", get(list).post(wizard::create))
            .route("/machines/new", get(wizard::show))
    },
    standing: None,
};

/// VMs listed.
const MAX_LISTED: usize = 500;

impl Shown for Namespace {}

/// One VM.
struct Line {
    namespace: String,
    name: String,
    level: Level,
    state: String,
    architecture: String,
    model: String,
    node: String,
}

#[derive(Template)]
#[template(path = "machines.html")]
struct Machines {
    layout: Layout,
    lines: Result<Vec<Line>, Unavailable>,
    more: usize,
}

async fn list(visitor: Visitor) -> Result<Response, Problem> {
    let viewer = visitor.viewer();
    let machines = shown(viewer.all::<VirtualMachine>().await)?;
    let instances = viewer.all::<VirtualMachineInstance>().await;
    let instances = instances.unwrap_or_default();
    let by_name: BTreeMap<(String, String), &VirtualMachineInstance> = instances
        .iter()
        .map(|it| ((it.namespace().unwrap_or_default(), it.name_any()), &**it))
        .collect();
    let mut more = 0;
    let lines = machines.map(|machines| {
        let mut lines: Vec<Line> = machines
            .iter()
            .map(|it| {
                let key = (it.namespace().unwrap_or_default(), it.name_any());
                line(it, by_name.get(&key).copied())
            })
            .collect();
        lines.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        more = lines.len().saturating_sub(MAX_LISTED);
        lines.truncate(MAX_LISTED);
        lines
    });
    Page::html(&Machines {
        layout: visitor.layout("Virtual machines", PATH),
        lines,
        more,
    })
}

fn line(machine: &VirtualMachine, instance: Option<&VirtualMachineInstance>) -> Line {
    let status = machine.status.as_ref();
    let state = status.and_then(|it| it.printable_status.clone());
    let state = state.unwrap_or_else(|| "Not reconciled yet".to_owned());
    let level = match state.as_str() {
        "Running" | "Stopped" | "Paused" => Level::Good,
        it if it.starts_with("Err") || it.contains("BackOff") || it == "CrashLoopBackOff" => {
            Level::Bad
        }
        "ErrorUnschedulable" | "Unknown" => Level::Warn,
        _ => Level::Busy,
    };
    let template = &machine.spec.template.spec;
    let asked = instance.map_or(template, |it| &it.spec);
    Line {
        namespace: machine.namespace().unwrap_or_default(),
        name: machine.name_any(),
        level,
        state,
        architecture: asked.architecture.clone().unwrap_or_default(),
        model: asked.model().unwrap_or_default().to_owned(),
        node: instance
            .and_then(VirtualMachineInstance::node_name)
            .unwrap_or_default()
            .to_owned(),
    }
}
