//! `medley cpu vms`: the CPU models of running virtual machines.

use clap::Args;
use cpu_models::{Review, RunningVm};
use serde_json::{Value, json};

use super::objects::{all_running, view};
use crate::cluster::ClusterArguments;
use crate::output::{Form, remark, table};
use crate::{exit, process};

/// Show the CPU models of running virtual machines, and which of them are stale or stranded.
///
/// A stale virtual machine would get a newer model after a restart. A stranded one has a model that
/// too few nodes support, so that it may not be able to migrate.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Show only virtual machines that would get a newer model after a restart.
    #[arg(long)]
    stale: bool,

    /// Show only virtual machines whose model too few nodes support.
    #[arg(long)]
    stranded: bool,

    /// Output format.
    /// [default: table]
    #[arg(short, long, value_enum)]
    output: Option<Form>,

    /// Namespace of the virtual machines.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Show the virtual machines of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (view, machines, namespace) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let namespace = arguments.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let wanted = (!arguments.all_namespaces).then_some(namespace.as_str());
        let view = view(&client).await?;
        let machines = all_running(&view, &client, wanted).await?;
        anyhow::Ok((view, machines, namespace))
    })?;
    let mut reviewed = view.reviewed(machines);
    reviewed.retain(|(_, review)| arguments.wants(review));
    if let Some(data) = arguments.output.and_then(Form::data) {
        return exit::print(&data.write(&list(&reviewed))?);
    }
    let text = match arguments.output {
        _ if reviewed.is_empty() => {
            remark(&arguments.nothing(&namespace));
            return Ok(());
        }
        Some(Form::Name) => names(reviewed.iter().map(|(running, _)| &running.machine.name)),
        form => {
            let wide = form == Some(Form::Wide);
            render(&reviewed, arguments.all_namespaces, wide)
        }
    };
    exit::print(&text)
}

impl Arguments {
    /// Whether the flags select this VM; both flags together select either.
    fn wants(&self, review: &Review) -> bool {
        let any = !self.stale && !self.stranded;
        any || (self.stale && review.stale.is_some())
            || (self.stranded && review.stranded.is_some())
    }

    fn nothing(&self, namespace: &str) -> String {
        let what = match (self.stale, self.stranded) {
            (false, false) => "virtual machines run",
            (true, false) => "virtual machines are stale",
            (false, true) => "virtual machines are stranded",
            (true, true) => "virtual machines are stale or stranded",
        };
        if self.all_namespaces {
            format!("No {what}.")
        } else {
            format!("No {what} in namespace {namespace}; use -A for all namespaces.")
        }
    }
}

fn list(reviewed: &[(RunningVm, Review)]) -> Value {
    let items: Vec<Value> = reviewed
        .iter()
        .map(|(running, review)| {
            json!({
                "namespace": running.machine.namespace, "name": running.machine.name,
                "node": running.node, "requested": running.machine.requested.as_str(),
                "review": review,
            })
        })
        .collect();
    json!({ "kind": "List", "items": items })
}

/// `virtualmachineinstance.GROUP/NAME` lines, for `-o name`.
pub(super) fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let lines =
        names.map(|name| format!("virtualmachineinstance.{}/{name}\n", api::kubevirt::GROUP));
    lines.collect()
}

fn render(reviewed: &[(RunningVm, Review)], namespaces: bool, wide: bool) -> String {
    let mut headers = vec!["NAME", "NODE", "MODEL", "TARGETS", "STATE"];
    if namespaces {
        headers.insert(0, "NAMESPACE");
    }
    if wide {
        headers.extend(["REQUESTED", "SUPPORTERS", "NEEDED", "NEWER MODEL"]);
    }
    let rows = reviewed.iter().map(|(running, review)| {
        let machine = &running.machine;
        let mut row = vec![
            machine.name.clone(),
            running.node.clone(),
            review.model.clone().unwrap_or_default(),
            review.targets.to_string(),
            state(review),
        ];
        if namespaces {
            row.insert(0, machine.namespace.clone());
        }
        if wide {
            let needed = review.threshold.map(|needed| needed.nodes.to_string());
            let newer = review.stale.as_ref().map(|stale| stale.model.clone());
            row.extend([
                machine.requested.to_string(),
                review.supporters.to_string(),
                needed.unwrap_or_default(),
                newer.unwrap_or_default(),
            ]);
        }
        row
    });
    table(&headers, rows)
}

/// `Fine`, `Stale`, `Stranded:NoTarget,Stale`, `Undecided`.
pub(crate) fn state(review: &Review) -> String {
    if review.model.is_none() {
        return "Undecided".to_owned();
    }
    let stranded = review.stranded.map(|why| format!("Stranded:{why:?}"));
    let stale = review.stale.as_ref().map(|_| "Stale".to_owned());
    let states: Vec<String> = stranded.into_iter().chain(stale).collect();
    if states.is_empty() {
        "Fine".to_owned()
    } else {
        states.join(",")
    }
}
