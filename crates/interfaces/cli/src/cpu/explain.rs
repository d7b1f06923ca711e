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

use super::objects::World;
use super::vms::state;
use super::what_if::documents;
use crate::cluster::ClusterArguments;
use crate::governance::configs::said;
use crate::governance::output::{Data, table};
use crate::governance::render::section;
use crate::{exit, process};

/// Explain which CPU model a virtual machine has or would get: what speaks for it, which models and
/// nodes do not count and why, and what would change it.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(super) struct Arguments {
    /// The machine: a VirtualMachineInstance or, if there is none of this name, a VirtualMachine.
    #[arg(group = "which")]
    name: Option<String>,

    /// A manifest of a VirtualMachine or VirtualMachineInstance that need not be in the cluster. `-` is
    /// standard input.
    #[arg(short, long, value_name = "FILE", group = "which")]
    filename: Option<PathBuf>,

    /// As if it started on this node.
    /// [default: the node that it is on; without one, one node of each make]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// The namespace of the machine.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Form of the output; text if absent.
    #[arg(short, long, value_enum)]
    output: Option<Data>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Explains.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (world, running) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let instance = arguments.find(&client).await?;
        let world = World::read(&client).await?;
        let running = world.running(&client, &instance).await?;
        anyhow::Ok((world, running))
    })?;
    let node = arguments.node.clone();
    let node = node.or_else(|| Some(running.node.clone()).filter(|node| !node.is_empty()));
    let text = match (&node, arguments.output) {
        (Some(node), form) => on_node(&world, &running, node, form)?,
        (None, form) => anywhere(&world, &running, form)?,
    };
    exit::print(&text)
}

impl Arguments {
    /// The instance that is meant, or the one that the machine would run as.
    async fn find(&self, client: &Client) -> anyhow::Result<VirtualMachineInstance> {
        if let Some(path) = &self.filename {
            let option = || format!("--filename {}", path.display());
            let mut objects = documents(path).with_context(option)?;
            let (Some(object), true) = (objects.pop(), objects.is_empty()) else {
                bail!("{}: one virtual machine is accepted", option());
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
            "there is no VirtualMachineInstance and no VirtualMachine {name} in namespace {namespace}; --namespace NAME looks elsewhere, --filename FILE explains a manifest"
        ))
    }
}

/// A manifest as the instance that comes of it. The proposal of the feature shows a VirtualMachine with
/// the domain right under its spec; that is taken as well.
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
    // What became of a machine says nothing about an instance.
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
        // Also a kind that nobody serves is answered with 404.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(said(error).context(format!("reading {} {name}", K::kind(&())))),
    }
}

/// What it gets, or got, on a node.
fn on_node(
    world: &World,
    running: &Running,
    node: &str,
    form: Option<Data>,
) -> anyhow::Result<String> {
    let policy = &world.settings.policy;
    let explanation = explain(&world.index, policy, &running.machine, node);
    let review = (running.node == node).then(|| review(&world.index, policy, running));
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
        text += &["State: ", &state, "; other nodes that could take it: "].concat();
        text += &targets.to_string();
        text.push('\n');
    }
    text.push_str(&section("Because", &explanation.because()));
    text.push_str(&section(
        "Models ruled out",
        &explanation.models_ruled_out(),
    ));
    text.push_str(&section("Nodes left out", &explanation.nodes_left_out()));
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
                "{name} asked for {asked} and has {model}; on node {node} it would get it again\n"
            )
        }
        Some(model) => {
            format!(
                "{name} asked for {asked} and has {model}; on node {node} it would now get {now}\n"
            )
        }
        None if asked.as_str() == cpu_models::names::BEST_MATCH_MODEL => {
            format!("{name} asks for {asked}; on node {node} it would get {now}\n")
        }
        None => format!(
            "{name} asks for {asked}; with {} it would get {now} on node {node}\n",
            cpu_models::names::BEST_MATCH_MODEL
        ),
    }
}

/// What it would get on each make of nodes.
fn anywhere(world: &World, running: &Running, form: Option<Data>) -> anyhow::Result<String> {
    let policy = &world.settings.policy;
    let mut survey = Survey::new(&world.index, policy);
    let machine = &running.machine;
    let mut rows = Vec::new();
    for group in groups(&world.index, policy) {
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
        return Ok(format!("{name} could not start on any node\n"));
    }
    let mut text = format!(
        "{name} is on no node; with {} it would get, by where it starts:\n\n",
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
