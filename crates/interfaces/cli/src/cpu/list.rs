//! `medley cpu`: the nodes of a cluster, one line per node class.

use clap::Args;
use cpu_models::groups::{Group, groups, unknown_models};
use serde_json::json;

use super::objects::view;
use crate::cluster::ClusterArguments;
use crate::output::{Form, ListOutputArguments, remark};
use crate::{exit, process};

/// Models shown in a wide table.
const SHOWN: usize = 5;

/// Show the CPU models that the nodes support, one line per node class.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    output: ListOutputArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let view = process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        view(&client).await
    })?;
    let policy = &view.settings.policy;
    let groups = groups(&view.index, policy);
    let unknown = unknown_models(&view.index, policy);
    let list = || json!({ "kind": "List", "items": groups, "unknownModels": unknown });
    if let Some(text) = arguments.output.data(list)? {
        return exit::print(&text);
    }
    let text = match arguments.output.form() {
        _ if groups.is_empty() => {
            remark("No nodes found.");
            return Ok(());
        }
        Some(Form::Name) => {
            let nodes = groups.iter().flat_map(|group| &group.nodes);
            let names: Vec<String> = nodes.map(|node| format!("node/{node}\n")).collect();
            names.concat()
        }
        form => render(&groups, form == Some(Form::Wide), &arguments.output),
    };
    if arguments.output.form().is_none() && !unknown.is_empty() {
        remark(&format!(
            "Models without a known launch year are never chosen: {}. Add them to the CpuModelPolicy.",
            unknown.join(", ")
        ));
    }
    exit::print(&text)
}

fn render(groups: &[Group], wide: bool, output: &ListOutputArguments) -> String {
    let mut headers = vec!["ARCHITECTURE", "VENDOR", "HOST MODEL", "NODES"];
    headers.extend(["NEWEST MODEL", "SHARED BY", "MODELS"]);
    if wide {
        headers.extend(["NEXT MODELS", "NAMES"]);
    }
    let rows = groups.iter().map(|group| {
        let newest = group.models.first();
        let vendor = group.vendor.as_ref().map(ToString::to_string);
        let mut row = vec![
            group.architecture.clone().unwrap_or_default(),
            vendor.unwrap_or_default(),
            group.host_model.clone().unwrap_or_default(),
            group.nodes.len().to_string(),
            newest.map(|it| it.model.clone()).unwrap_or_default(),
            newest.map(|it| it.nodes.to_string()).unwrap_or_default(),
            format!("{}/{}", group.models.len(), group.supported),
        ];
        if wide {
            let next = group.models.iter().skip(1).take(SHOWN);
            let next: Vec<String> = next
                .map(|it| format!("{}:{}", it.model, it.nodes))
                .collect();
            row.extend([next.join(","), group.nodes.join(",")]);
        }
        row
    });
    output.table(&headers, rows)
}
