//! `medley cpu what-if`: the effect of other nodes or another policy on all virtual machines.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use api::cpu::CpuModelPolicy;
use clap::Args;
use cpu_models::what_if::{Change, Outcome, Scenario as Side, Totals, what_if};
use cpu_models::{NodeInputs, Policy};
use governance::user_patches::list_valid_names;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::objects::{all_running, view};
use super::vms::names;
use crate::cluster::ClusterArguments;
use crate::output::{Form, ListOutputArguments, remark, table};
use crate::{exit, process, read};

/// Show how other nodes or another policy would change the CPU models of all virtual machines.
///
/// Evaluates the change locally; the cluster is only read.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("changes").required(true).multiple(true)))]
pub(super) struct Arguments {
    /// Manifest of nodes to assume in addition; one with the name of an existing node replaces it.
    /// `-` reads standard input. Can be repeated.
    #[arg(long, value_name = "FILE", group = "changes")]
    add_node: Vec<PathBuf>,

    /// Node to assume removed. Can be repeated.
    #[arg(long, value_name = "NAME", group = "changes")]
    remove_node: Vec<String>,

    /// Manifest of a CpuModelPolicy to assume. `-` reads standard input.
    #[arg(long, value_name = "FILE", group = "changes")]
    policy: Option<PathBuf>,

    #[command(flatten)]
    output: ListOutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Files before the cluster: a mistake in them is reported without waiting for a connection.
    let added = arguments.added()?;
    let policy = arguments.policy()?;
    let (view, machines) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let view = view(&client).await?;
        let machines = all_running(&view, &client, None).await?;
        anyhow::Ok((view, machines))
    })?;
    let mut index = view.index.clone();
    for name in &arguments.remove_node {
        ensure!(
            index.remove(name),
            "--remove-node {name}: there is no such node; {}",
            list_valid_names(&index.names())
        );
    }
    for node in &added {
        if node.vendor().one().is_none() {
            remark(&format!(
                "Node {} has no vendor label (cpu-vendor.node.kubevirt.io/<vendor>), and is ignored.",
                node.name
            ));
        }
        index.upsert(node);
    }
    let now = &view.settings.policy;
    // The list of obsolete models is part of the KubeVirt CR and not of the policy, so that it
    // stays that of the cluster.
    let then = policy.map(|policy| policy.with_obsolete(now.obsolete.clone()));
    let outcome = what_if(
        Side {
            index: &view.index,
            policy: now,
        },
        Side {
            index: &index,
            policy: then.as_ref().unwrap_or(now),
        },
        &machines,
    );
    let data = arguments.output.data(|| json!(outcome))?;
    let text = match (data, arguments.output.form()) {
        (Some(data), _) => data,
        (None, Some(Form::Name)) => names(outcome.changes.iter().map(|change| &change.name)),
        (None, form) => render(&outcome, form == Some(Form::Wide)),
    };
    exit::print(&text)
}

impl Arguments {
    /// The nodes of the manifests.
    fn added(&self) -> anyhow::Result<Vec<NodeInputs>> {
        let mut nodes = Vec::new();
        for path in &self.add_node {
            let option = || format!("--add-node {}", path.display());
            for object in documents(path).with_context(option)? {
                let kind = object["kind"].as_str().unwrap_or_default().to_owned();
                ensure!(kind == "Node", "{}: {kind:?} is not a Node", option());
                let node: Node = serde_json::from_value(object).with_context(option)?;
                let facts = NodeInputs::from_node(&node);
                ensure!(
                    !facts.name.is_empty(),
                    "{}: metadata.name is missing",
                    option()
                );
                nodes.push(facts);
            }
        }
        Ok(nodes)
    }

    /// The CpuModelPolicy of the manifest. An invalid part is an error here, since no cluster
    /// depends on it yet.
    fn policy(&self) -> anyhow::Result<Option<Policy>> {
        let Some(path) = &self.policy else {
            return Ok(None);
        };
        let option = || format!("--policy {}", path.display());
        let object = document(path, "CpuModelPolicy").with_context(option)?;
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        ensure!(
            kind == "CpuModelPolicy",
            "{}: {kind:?} is not a CpuModelPolicy",
            option()
        );
        let object: CpuModelPolicy = serde_json::from_value(object).with_context(option)?;
        let (policy, wrong) = Policy::read(&object.spec);
        if let Some(wrong) = wrong.first() {
            bail!("{}: {wrong}", option());
        }
        Ok(Some(policy))
    }
}

/// The only object of a manifest.
pub(super) fn document(path: &Path, what: &str) -> anyhow::Result<Value> {
    let mut objects = documents(path)?;
    match (objects.pop(), objects.is_empty()) {
        (Some(object), true) => Ok(object),
        _ => bail!("expected a single {what}"),
    }
}

/// The objects of a manifest: YAML documents, each an object or a List.
fn documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = read::file(path)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).context("reading YAML")?;
    let mut objects = Vec::new();
    for document in documents {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None if document.is_null() => {}
            None => objects.push(document),
        }
    }
    Ok(objects)
}

/// A line of the summary: its title, and the count that it shows.
type Total = (&'static str, fn(&Totals) -> u32);

fn render(outcome: &Outcome, wide: bool) -> String {
    let (before, after) = (&outcome.before, &outcome.after);
    let mut text = String::new();
    let totals: [Total; 5] = [
        ("VMs:", |it| it.machines),
        ("Stranded:", |it| it.stranded),
        ("Without target:", |it| it.without_target),
        ("Without node:", |it| it.without_node),
        ("Stale:", |it| it.stale),
    ];
    for (name, of) in totals {
        let _ = writeln!(text, "{name:<16}{}", arrow(of(before), of(after), " -> "));
    }
    if outcome.changes.is_empty() {
        text.push_str("\nNo virtual machine would change.\n");
        return text;
    }
    let mut headers = vec!["NAMESPACE", "NAME", "NODE", "MODEL", "TARGETS"];
    if wide {
        headers.extend(["SUPPORTERS", "NEEDED"]);
    }
    headers.push("EFFECT");
    let rows = outcome.changes.iter().map(|change| row(change, wide));
    text.push('\n');
    text.push_str(&table(&headers, rows));
    text
}

/// A value before and after, or once if it stays the same.
fn arrow(before: u32, after: u32, arrow: &str) -> String {
    if before == after {
        before.to_string()
    } else {
        format!("{before}{arrow}{after}")
    }
}

fn row(change: &Change, wide: bool) -> Vec<String> {
    let (before, after) = (&change.before, &change.after);
    let arrow = |before, after| arrow(before, after, "->");
    let mut row = vec![
        change.namespace.clone(),
        change.name.clone(),
        change.node.clone(),
        before.model.clone().unwrap_or_default(),
        arrow(before.targets, after.targets),
    ];
    if wide {
        let needed = |review: &cpu_models::Review| review.threshold.map_or(0, |it| it.nodes);
        row.extend([
            arrow(before.supporters, after.supporters),
            arrow(needed(before), needed(after)),
        ]);
    }
    let effects: Vec<String> = change.effects.iter().map(ToString::to_string).collect();
    row.push(effects.join("; "));
    row
}
