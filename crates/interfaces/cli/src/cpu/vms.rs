//! `medley cpu vms`: the CPU models of running virtual machines.

use clap::Args;
use cpu_models::{Review, Running, Survey};
use serde_json::{Value, json};

use super::Form;
use super::objects::CpuView;
use crate::cluster::ClusterArguments;
use crate::governance::output::{Data, remark, table_of};
use crate::{exit, process};

/// Show the CPU models of virtual machines: how many nodes could run them, whether a restart would
/// give them a newer model, and whether too few nodes support the model they have.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only those that would get a newer model after a restart.
    #[arg(long)]
    stale: bool,

    /// Only those whose model too few nodes support.
    #[arg(long)]
    stranded: bool,

    /// Output format; a table by default.
    #[arg(short, long, value_enum)]
    output: Option<Form>,

    /// The namespace of the virtual machines.
    /// [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// The virtual machines of all namespaces.
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
        let view = CpuView::read(&client).await?;
        let machines = view.all_running(&client, wanted).await?;
        anyhow::Ok((view, machines, namespace))
    })?;
    let mut survey = Survey::new(&view.index, &view.settings.policy);
    let reviewed: Vec<(Running, Review)> = machines
        .into_iter()
        .map(|running| {
            let review = survey.review(&running);
            (running, review)
        })
        .filter(|(_, review)| arguments.wants(review))
        .collect();
    let text = match arguments.output {
        Some(Form::Json) => Data::Json.write(&list(&reviewed))?,
        Some(Form::Yaml) => Data::Yaml.write(&list(&reviewed))?,
        _ if reviewed.is_empty() => {
            remark(&arguments.nothing(&namespace));
            return Ok(());
        }
        Some(Form::Name) => names(&reviewed),
        form => render(
            &reviewed,
            arguments.all_namespaces,
            form == Some(Form::Wide),
        ),
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

fn list(reviewed: &[(Running, Review)]) -> Value {
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
fn names(reviewed: &[(Running, Review)]) -> String {
    let names = reviewed.iter().map(|(running, _)| {
        let name = &running.machine.name;
        format!("virtualmachineinstance.{}/{name}\n", api::kubevirt::GROUP)
    });
    names.collect()
}

fn render(reviewed: &[(Running, Review)], namespaces: bool, wide: bool) -> String {
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
    table_of(&headers, rows.collect())
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
