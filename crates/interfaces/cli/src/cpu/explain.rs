//! `medley cpu explain`: which CPU model a virtual machine has or would get, and why.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use api::kubevirt::{VirtualMachine, VirtualMachineInstance};
use clap::Args;
use cluster_view::cpu::CpuSnapshot;
use cpu_models::explain::Explanation;
use cpu_models::groups::groups;
use cpu_models::{RunningVm, Survey, explain, review};
use kube::Client;
use serde_json::{Value, json};

use super::objects::view;
use super::vms::state;
use super::what_if::document;
use crate::cluster::ClusterArguments;
use crate::output::{OutputArguments, section, table};
use crate::process;
use crate::read::{self, scoped};

/// Explain which CPU model a virtual machine has or would get.
///
/// Shows the reasons, the models and nodes that are excluded and why, and what would change the
/// choice.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(super) struct Arguments {
    /// Name of the VirtualMachineInstance or, if none has this name, of the VirtualMachine.
    #[arg(group = "which")]
    name: Option<String>,

    /// Manifest of a VirtualMachine or VirtualMachineInstance that need not exist in the cluster.
    /// `-` reads standard input.
    #[arg(short, long, value_name = "FILE", group = "which")]
    filename: Option<PathBuf>,

    /// Assume that it starts on this node.
    /// [default: the node it runs on; otherwise one node of each class]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Namespace of the virtual machine.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    output: OutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (view, running) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let instance = arguments.find(&client).await?;
        let view = view(&client).await?;
        let running = view.running(&client, &instance).await?;
        anyhow::Ok((view, running))
    })?;
    let node = arguments.node.clone();
    let node = node.or_else(|| Some(running.node.clone()).filter(|node| !node.is_empty()));
    match &node {
        Some(node) => on_node(&view, &running, node, &arguments.output),
        None => anywhere(&view, &running, &arguments.output),
    }
}

impl Arguments {
    /// The VMI of this name, or the one that the VM's template would create.
    async fn find(&self, client: &Client) -> anyhow::Result<VirtualMachineInstance> {
        if let Some(path) = &self.filename {
            let option = || format!("--filename {}", path.display());
            let object = document(path, "virtual machine").with_context(option)?;
            return as_instance(object).with_context(option);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let namespace = self.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        let instances = scoped::<VirtualMachineInstance>(client, Some(namespace));
        if let Some(found) = read::get(&instances, name).await? {
            return Ok(found);
        }
        let machines = scoped::<VirtualMachine>(client, Some(namespace));
        if let Some(found) = read::get(&machines, name).await? {
            let mut instance = VirtualMachineInstance {
                spec: found.spec.template.spec,
                ..VirtualMachineInstance::default()
            };
            instance.metadata.name = found.metadata.name;
            instance.metadata.namespace = found.metadata.namespace;
            return Ok(instance);
        }
        Err(anyhow!(
            "there is no VirtualMachineInstance and no VirtualMachine {name} in namespace {namespace}; use --namespace NAME for another namespace, or --filename FILE for a manifest"
        ))
    }
}

/// The VMI that a manifest creates. The enhancement proposal shows a VirtualMachine with the domain
/// right under its spec; that form is accepted as well.
fn as_instance(mut object: Value) -> anyhow::Result<VirtualMachineInstance> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    ensure!(
        ["VirtualMachine", "VirtualMachineInstance"].contains(&kind.as_str()),
        "{kind:?} is neither a VirtualMachine nor a VirtualMachineInstance"
    );
    if let Some(template) = object.pointer("/spec/template/spec").cloned() {
        object["spec"] = template;
    }
    object["kind"] = json!("VirtualMachineInstance");
    // The status of a VM is not that of an instance.
    if kind == "VirtualMachine" {
        object["status"] = Value::Null;
    }
    serde_json::from_value(object).context("reading the manifest")
}

/// The model it gets, or got, on a node.
fn on_node(
    view: &CpuSnapshot,
    running: &RunningVm,
    node: &str,
    output: &OutputArguments,
) -> anyhow::Result<()> {
    let policy = &view.settings.policy;
    let machine = &running.machine;
    let explanation = explain(&view.index, policy, machine, node);
    let review = (running.node == node).then(|| review(&view.index, policy, running));
    let value = json!({
        "namespace": machine.namespace, "name": machine.name,
        "requested": machine.requested.as_str(), "recorded": running.recorded,
        "explanation": explanation, "review": review,
    });
    output.print(&value, || {
        let state = match review.filter(|review| review.model.is_some()) {
            Some(review) => format!(
                "State: {}; other nodes that could run it: {}\n",
                state(&review),
                review.targets
            ),
            None => String::new(),
        };
        [
            headline(running, &explanation),
            state,
            section("Because", &explanation.because()),
            section("Models excluded", &explanation.models_ruled_out()),
            section("Nodes excluded", &explanation.nodes_left_out()),
            section("Next", &explanation.next()),
        ]
        .concat()
    })
}

fn headline(running: &RunningVm, explanation: &Explanation) -> String {
    let machine = &running.machine;
    let name = format!("{}/{}", machine.namespace, machine.name);
    let node = &explanation.decision.node;
    let now = explanation.decision.verdict.model();
    let asked = &machine.requested;
    let best = cpu_models::names::BEST_MATCH_MODEL;
    match &running.recorded {
        Some(model) if model == now => format!(
            "{name} requested {asked} and has {model}; on node {node} it would get it again\n"
        ),
        Some(model) => format!(
            "{name} requested {asked} and has {model}; on node {node} it would now get {now}\n"
        ),
        None if asked.as_str() == best => {
            format!("{name} requests {asked}; on node {node} it would get {now}\n")
        }
        None => {
            format!("{name} requests {asked}; with {best} it would get {now} on node {node}\n")
        }
    }
}

/// The model it would get on each class of nodes.
fn anywhere(
    view: &CpuSnapshot,
    running: &RunningVm,
    output: &OutputArguments,
) -> anyhow::Result<()> {
    let policy = &view.settings.policy;
    let mut survey = Survey::new(&view.index, policy);
    let machine = &running.machine;
    let mut places = Vec::new();
    for group in groups(&view.index, policy) {
        if let Some((node, count)) = survey.first_eligible(machine, &group.nodes) {
            places.push((survey.decide(machine, &node), group, count));
        }
    }
    let values = places.iter().map(|(decision, group, count)| {
        json!({ "hostModel": group.host_model, "nodes": count, "decision": decision })
    });
    let value = json!({
        "namespace": machine.namespace, "name": machine.name,
        "requested": machine.requested.as_str(), "places": values.collect::<Vec<Value>>(),
    });
    output.print(&value, || {
        let name = format!("{}/{}", machine.namespace, machine.name);
        if places.is_empty() {
            return format!("{name} cannot start on any node\n");
        }
        let rows = places.into_iter().map(|(decision, group, count)| {
            let vendor = group.vendor.map(|vendor| vendor.to_string());
            [
                vendor.unwrap_or_default(),
                group.host_model.unwrap_or_default(),
                count.to_string(),
                decision.verdict.model().to_owned(),
                decision.verdict.reason().to_owned(),
            ]
        });
        let headers = ["VENDOR", "HOST MODEL", "NODES", "MODEL", "REASON"];
        format!(
            "{name} is not on a node; with {} it would get, depending on the node class:\n\n{}",
            cpu_models::names::BEST_MATCH_MODEL,
            table(&headers, rows)
        )
    })
}
