//! `medley cpu what-if`: the effect of other nodes or another policy on all virtual machines.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use api::cpu::CpuModelPolicy;
use clap::Args;
use cpu_models::what_if::{Change, Outcome, World as Side, what_if};
use cpu_models::{NodeInputs, Policy};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::Form;
use super::objects::CpuView;
use crate::cluster::ClusterArguments;
use crate::governance::configs::{list_valid_names, read};
use crate::governance::output::{Data, remark, table_of};
use crate::{exit, process};

/// Show how other nodes or another policy would change the CPU models of all virtual machines.
/// Nothing in the cluster is changed.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("changes").required(true).multiple(true)))]
pub(super) struct Arguments {
    /// Assume that the nodes of this manifest exist; a node of the same name is replaced. `-` reads
    /// standard input. Can be repeated.
    #[arg(long, value_name = "FILE", group = "changes")]
    add_node: Vec<PathBuf>,

    /// Assume that this node is gone. Can be repeated.
    #[arg(long, value_name = "NAME", group = "changes")]
    remove_node: Vec<String>,

    /// Assume this CpuModelPolicy. `-` reads standard input.
    #[arg(long, value_name = "FILE", group = "changes")]
    policy: Option<PathBuf>,

    /// Output format; a table by default.
    #[arg(short, long, value_enum)]
    output: Option<Form>,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let added = arguments.added()?;
    let policy = arguments.policy()?;
    let (view, machines) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let view = CpuView::read(&client).await?;
        let machines = view.all_running(&client, None).await?;
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
    let text = match arguments.output {
        Some(Form::Json) => Data::Json.write(&json!(outcome))?,
        Some(Form::Yaml) => Data::Yaml.write(&json!(outcome))?,
        Some(Form::Name) => names(&outcome),
        form => render(&outcome, form == Some(Form::Wide)),
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
        let mut objects = documents(path).with_context(option)?;
        let (Some(object), true) = (objects.pop(), objects.is_empty()) else {
            bail!("{}: expected a single CpuModelPolicy", option());
        };
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

/// The objects of a manifest: YAML documents, each an object or a List.
pub(super) fn documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = read(path)?;
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

/// `virtualmachineinstance.GROUP/NAME` lines, for `-o name`.
fn names(outcome: &Outcome) -> String {
    let names = outcome.changes.iter().map(|change| {
        let name = &change.name;
        format!("virtualmachineinstance.{}/{name}\n", api::kubevirt::GROUP)
    });
    names.collect()
}

fn render(outcome: &Outcome, wide: bool) -> String {
    let (before, after) = (&outcome.before, &outcome.after);
    let mut text = String::new();
    let mut total = |name: &str, before: u32, after: u32| {
        let arrow = if before == after {
            format!("{before}")
        } else {
            format!("{before} -> {after}")
        };
        let _ = writeln!(text, "{name:<16}{arrow}");
    };
    total("VMs:", before.machines, after.machines);
    total("Stranded:", before.stranded, after.stranded);
    total(
        "Without target:",
        before.without_target,
        after.without_target,
    );
    total("Without node:", before.without_node, after.without_node);
    total("Stale:", before.stale, after.stale);
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
    text.push_str(&table_of(&headers, rows.collect()));
    text
}

fn row(change: &Change, wide: bool) -> Vec<String> {
    let (before, after) = (&change.before, &change.after);
    let arrow = |before: u32, after: u32| {
        if before == after {
            before.to_string()
        } else {
            format!("{before}->{after}")
        }
    };
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
