//! `medley cpu vms`: the CPU models of running virtual machines.

use api::cpu::CpuModelPolicy;
use api::kubevirt::VirtualMachineInstance;
use clap::Args;
use cpu_models::{Review, RunningVm};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::objects::{all_running, view};
use crate::cluster::ClusterArguments;
use crate::output::{Form, ListOutputArguments, remark};
use crate::read::scoped;
use crate::selector::SelectorArguments;
use crate::watch::{Changes, Rows, WatchArguments};
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

    #[command(flatten)]
    output: ListOutputArguments,

    /// Namespace of the virtual machines.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Show the virtual machines of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    #[command(flatten)]
    selector: SelectorArguments,

    #[command(flatten)]
    watch: WatchArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let watch = arguments.watch.is_set(&arguments.output)?;
    let (reviewed, namespace) = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let namespace = arguments.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let wanted = (!arguments.all_namespaces).then_some(namespace.as_str());
        if watch {
            arguments.watch(&client, wanted).await?;
        }
        anyhow::Ok((arguments.reviewed(&client, wanted).await?, namespace))
    })?;
    if let Some(text) = arguments.output.data(|| list(&reviewed))? {
        return exit::print(&text);
    }
    if reviewed.is_empty() {
        remark(&arguments.nothing(&namespace));
        return Ok(());
    }
    exit::print(&arguments.text(&reviewed))
}

impl Arguments {
    /// The selected VMs.
    async fn reviewed(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<Vec<(RunningVm, Review)>> {
        let view = view(client).await?;
        let mut machines = all_running(&view, client, namespace).await?;
        let api = scoped::<VirtualMachineInstance>(client, namespace);
        if let Some(selected) = self.selector.selected(&api).await? {
            machines.retain(|it| {
                let machine = &it.machine;
                selected.contains(&(machine.namespace.clone(), machine.name.clone()))
            });
        }
        let mut reviewed = view.reviewed(machines);
        reviewed.retain(|(_, review)| self.wants(review));
        Ok(reviewed)
    }

    /// Prints the VMs, and those that change, until the process is stopped.
    async fn watch(&self, client: &Client, namespace: Option<&str>) -> anyhow::Result<()> {
        let mut changes = Changes::default();
        changes.follow(scoped::<VirtualMachineInstance>(client, namespace));
        changes.follow(Api::<CpuModelPolicy>::all(client.clone()));
        let read = async || {
            let shown = self.text(&self.reviewed(client, namespace).await?);
            let compared = shown.clone();
            Ok(Rows { shown, compared })
        };
        changes.print(read).await
    }

    fn text(&self, reviewed: &[(RunningVm, Review)]) -> String {
        match self.output.form() {
            Some(Form::Name) => names(reviewed.iter().map(|(running, _)| &running.machine.name)),
            form => self.render(reviewed, form == Some(Form::Wide)),
        }
    }
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

impl Arguments {
    fn render(&self, reviewed: &[(RunningVm, Review)], wide: bool) -> String {
        let namespaces = self.all_namespaces;
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
        self.output.table(&headers, rows)
    }
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
