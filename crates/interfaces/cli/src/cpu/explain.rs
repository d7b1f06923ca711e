//! `medley cpu explain`: which CPU model a virtual machine has or would get, and why.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail, ensure};
use api::kubevirt::{VirtualMachine, VirtualMachineInstance};
use clap::Args;
use cpu_models::explain::Explanation;
use cpu_models::groups::groups;
use cpu_models::{Running, Survey, explain, review};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::objects::CpuView;
use super::vms::state;
use super::what_if::documents;
use crate::cluster::ClusterArguments;
use crate::governance::configs::api_error;
use crate::governance::output::{Data, table};
use crate::governance::render::section;
use crate::{exit, process};

/// Explain which CPU model a virtual machine has or would get: the reasons, the models and nodes
/// that are excluded and why, and what would change it.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(super) struct Arguments {
    /// The virtual machine: a VirtualMachineInstance or, if there is none of this name, a
    /// VirtualMachine.
    #[arg(group = "which")]
    name: Option<String>,

    /// A manifest of a VirtualMachine or VirtualMachineInstance, which need not exist in the
    /// cluster. `-` reads standard input.
    #[arg(short, long, value_name = "FILE", group = "which")]
    filename: Option<PathBuf>,

    /// Assume that it starts on this node.
    /// [default: the node it runs on; otherwise one node of each class]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// The namespace of the virtual machine.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Output format; text by default.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (view, running) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let instance = arguments.find(&client).await?;
        let view = CpuView::read(&client).await?;
        let running = view.running(&client, &instance).await?;
        anyhow::Ok((view, running))
    })?;
    let node = arguments.node.clone();
    let node = node.or_else(|| Some(running.node.clone()).filter(|node| !node.is_empty()));
    let text = match (&node, arguments.output) {
        (Some(node), form) => on_node(&view, &running, node, form)?,
        (None, form) => anywhere(&view, &running, form)?,
    };
    exit::print(&text)
}

impl Arguments {
    /// The VMI of this name, or the one that the VM's template would create.
    async fn find(&self, client: &Client) -> anyhow::Result<VirtualMachineInstance> {
        if let Some(path) = &self.filename {
            let option = || format!("--filename {}", path.display());
            let mut objects = documents(path).with_context(option)?;
            let (Some(object), true) = (objects.pop(), objects.is_empty()) else {
                bail!("{}: expected a single virtual machine", option());
            };
            return as_instance(object).with_context(option);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let namespace = self.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        if let Some(found) = get::<VirtualMachineInstance>(client, namespace, name).await? {
            return Ok(found);
        }
        if let Some(found) = get::<VirtualMachine>(client, namespace, name).await? {
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

async fn get<K>(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<K>>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    match api.get(name).await {
        Ok(found) => Ok(Some(found)),
        // The API server answers 404 for a kind that is not installed, too.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(api_error(error).context(format!("reading {} {name}", K::kind(&())))),
    }
}

/// The model it gets, or got, on a node.
fn on_node(
    view: &CpuView,
    running: &Running,
    node: &str,
    form: Option<Data>,
) -> anyhow::Result<String> {
    let policy = &view.settings.policy;
    let explanation = explain(&view.index, policy, &running.machine, node);
    let review = (running.node == node).then(|| review(&view.index, policy, running));
    if let Some(form) = form {
        let machine = &running.machine;
        return form.write(&json!({
            "namespace": machine.namespace, "name": machine.name,
            "requested": machine.requested.as_str(), "recorded": running.recorded,
            "explanation": explanation, "review": review,
        }));
    }
    let mut text = headline(running, &explanation);
    if let Some(review) = review.filter(|review| review.model.is_some()) {
        let (state, targets) = (state(&review), review.targets);
        text += &["State: ", &state, "; other nodes that could run it: "].concat();
        text += &targets.to_string();
        text.push('\n');
    }
    text.push_str(&section("Because", &explanation.because()));
    text.push_str(&section("Models excluded", &explanation.models_ruled_out()));
    text.push_str(&section("Nodes excluded", &explanation.nodes_left_out()));
    text.push_str(&section("Next", &explanation.next()));
    Ok(text)
}

fn headline(running: &Running, explanation: &Explanation) -> String {
    let machine = &running.machine;
    let name = format!("{}/{}", machine.namespace, machine.name);
    let node = &explanation.decision.node;
    let now = explanation.decision.verdict.model();
    let asked = &machine.requested;
    match &running.recorded {
        Some(model) if model == now => {
            format!(
                "{name} requested {asked} and has {model}; on node {node} it would get it again\n"
            )
        }
        Some(model) => {
            format!(
                "{name} requested {asked} and has {model}; on node {node} it would now get {now}\n"
            )
        }
        None if asked.as_str() == cpu_models::names::BEST_MATCH_MODEL => {
            format!("{name} requests {asked}; on node {node} it would get {now}\n")
        }
        None => format!(
            "{name} requests {asked}; with {} it would get {now} on node {node}\n",
            cpu_models::names::BEST_MATCH_MODEL
        ),
    }
}

/// The model it would get on each class of nodes.
fn anywhere(view: &CpuView, running: &Running, form: Option<Data>) -> anyhow::Result<String> {
    let policy = &view.settings.policy;
    let mut survey = Survey::new(&view.index, policy);
    let machine = &running.machine;
    let mut rows = Vec::new();
    for group in groups(&view.index, policy) {
        let Some((node, count)) = survey.first_eligible(machine, &group.nodes) else {
            continue;
        };
        let decision = survey.decide(machine, &node);
        rows.push((group, count, decision));
    }
    if let Some(form) = form {
        let places: Vec<Value> = rows
            .iter()
            .map(|(group, count, decision)| {
                json!({ "hostModel": group.host_model, "nodes": count, "decision": decision })
            })
            .collect();
        return form.write(&json!({
            "namespace": machine.namespace, "name": machine.name,
            "requested": machine.requested.as_str(), "places": places,
        }));
    }
    let name = format!("{}/{}", machine.namespace, machine.name);
    if rows.is_empty() {
        return Ok(format!("{name} cannot start on any node\n"));
    }
    let mut text = format!(
        "{name} is not on a node; with {} it would get, depending on the node class:\n\n",
        cpu_models::names::BEST_MATCH_MODEL
    );
    let rows = rows.into_iter().map(|(group, count, decision)| {
        [
            group
                .vendor
                .map(|vendor| vendor.to_string())
                .unwrap_or_default(),
            group.host_model.unwrap_or_default(),
            count.to_string(),
            decision.verdict.model().to_owned(),
            decision.verdict.reason().to_owned(),
        ]
    });
    text.push_str(&table(
        ["VENDOR", "HOST MODEL", "NODES", "MODEL", "REASON"],
        rows.collect(),
    ));
    Ok(text)
}
