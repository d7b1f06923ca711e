//! `medley history`: the applied plans, their approvers and outcomes.

use std::fmt::Write as _;

use ::governance::record::{Ending, Record};
use anyhow::{Context as _, bail};
use clap::Args;
use controllers::governance::history::records;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use machinery::time::format_time;
use serde_json::{Value, json};

use super::configs::{configs, list_valid_names};
use super::output::{Form, diff, short_digest, table};
use super::source::HistoryArguments;
use crate::cluster::ClusterArguments;
use crate::{exit, process};

/// Columns of the table.
const COLUMNS: [&str; 7] = [
    "REVISION",
    "DIGEST",
    "IMPACT",
    "APPROVED BY",
    "STARTED",
    "OUTCOME",
    "FINISHED",
];

/// Show the plans that were applied.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration.
    /// [default: all]
    name: Option<String>,

    /// Show one revision, with its changes line by line.
    #[arg(long, value_name = "REVISION", requires = "name")]
    revision: Option<i64>,

    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Form,

    #[command(flatten)]
    history: HistoryArguments,

    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Prints the history.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    process::build_runtime()?.block_on(async {
        let client = arguments.cluster.client().await?;
        let names = if let Some(name) = &arguments.name {
            // The history outlives its configuration.
            vec![name.clone()]
        } else {
            let listed = configs(&client).list().await?;
            listed.iter().map(ResourceExt::name_any).collect()
        };
        let mut all = Vec::new();
        for name in names {
            let found = records(&client, &arguments.history.history_namespace, &name).await?;
            all.extend(found.into_iter().map(|record| (name.clone(), record)));
        }
        if all.is_empty()
            && let Some(name) = &arguments.name
        {
            // Without a history, the name may be misspelt: report a configuration that does not
            // exist.
            configs(&client).get(name).await?;
        }
        if let Some(revision) = arguments.revision {
            let known: Vec<String> = all
                .iter()
                .map(|(_, record)| record.revision.to_string())
                .collect();
            all.retain(|(_, record)| record.revision == revision);
            if all.is_empty() {
                bail!(
                    "there is no revision {revision}; {}",
                    list_valid_names(&known)
                );
            }
        }
        exit::print(&arguments.write(&all)?)
    })
}

impl Arguments {
    fn write(&self, all: &[(String, Record)]) -> anyhow::Result<String> {
        match (self.output.data(), self.revision, all) {
            (Some(data), Some(_), [(name, record)]) => data.write(&value(name, record)?),
            (Some(data), _, _) => {
                let items: Vec<Value> = all
                    .iter()
                    .map(|(name, record)| value(name, record))
                    .collect::<anyhow::Result<_>>()?;
                data.write(&json!({ "apiVersion": "v1", "kind": "List", "items": items }))
            }
            (None, Some(_), [(name, record)]) => Ok(one(name, record)),
            (None, _, []) => Ok("no plan has been applied\n".to_owned()),
            (None, _, _) => Ok(self.listed(all)),
        }
    }

    fn listed(&self, all: &[(String, Record)]) -> String {
        if self.output == Form::Wide {
            let headers = [
                "NAME",
                "REVISION",
                "DIGEST",
                "IMPACT",
                "APPROVED BY",
                "STARTED",
                "OUTCOME",
                "FINISHED",
                "UNDOES",
                "ITEMS",
                "VERSION",
                "MESSAGE",
            ];
            let rows = all.iter().map(|(name, record)| {
                let [revision, digest, impact, by, started, outcome, finished] = cells(record);
                [
                    name.clone(),
                    revision,
                    digest,
                    impact,
                    by,
                    started,
                    outcome,
                    finished,
                    undoes(record),
                    names(record),
                    record.operator_version.clone(),
                    message(record),
                ]
            });
            return table(headers, rows.collect());
        }
        if self.name.is_some() {
            return table(
                COLUMNS,
                all.iter().map(|(_, record)| cells(record)).collect(),
            );
        }
        let mut headers = [""; COLUMNS.len() + 1];
        headers[0] = "NAME";
        headers[1..].copy_from_slice(&COLUMNS);
        let rows = all.iter().map(|(name, record)| {
            let mut row: [String; COLUMNS.len() + 1] = Default::default();
            name.clone_into(&mut row[0]);
            row[1..].clone_from_slice(&cells(record));
            row
        });
        table(headers, rows.collect())
    }
}

fn cells(record: &Record) -> [String; COLUMNS.len()] {
    let time = |time: &Time| format_time(time.0);
    let (outcome, finished) = record.outcome.as_ref().map_or_else(
        || ("<pending>".to_owned(), String::new()),
        |outcome| (ending(outcome.result).to_owned(), time(&outcome.finished)),
    );
    [
        record.revision.to_string(),
        short_digest(&record.plan_digest),
        record.impact.to_string(),
        record.approved_by.join(","),
        time(&record.started),
        outcome,
        finished,
    ]
}

fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "Completed",
        Ending::CompletedWithErrors => "CompletedWithErrors",
        Ending::Failed => "Failed",
        Ending::Superseded => "Superseded",
    }
}

fn undoes(record: &Record) -> String {
    let from = record.rollback_to;
    from.map(|from| format!("{from} and later"))
        .unwrap_or_default()
}

fn names(record: &Record) -> String {
    let names: Vec<&str> = record.items.iter().map(|item| item.name.as_str()).collect();
    names.join(",")
}

fn message(record: &Record) -> String {
    let outcome = record.outcome.as_ref();
    outcome
        .map(|outcome| outcome.message.clone())
        .unwrap_or_default()
}

/// One revision in detail.
fn one(name: &str, record: &Record) -> String {
    let [revision, _, impact, by, started, outcome, finished] = cells(record);
    let none = |text: String| {
        if text.is_empty() {
            "<none>".to_owned()
        } else {
            text
        }
    };
    let mut text = String::new();
    for (title, line) in [
        ("Name", name.to_owned()),
        ("Revision", revision),
        ("Digest", record.plan_digest.clone()),
        ("Undoes", none(undoes(record))),
        ("Impact", impact),
        ("Approved by", none(by)),
        ("Started", started),
        ("Outcome", outcome),
        ("Finished", none(finished)),
        ("Message", none(message(record))),
        ("Version", record.operator_version.clone()),
    ] {
        let title = format!("{title}:");
        let _ = writeln!(text, "{title:<13}{line}");
    }
    for item in &record.items {
        let _ = writeln!(
            text,
            "\n{} ({:?} {})",
            item.name, item.operation, item.target_ref
        );
        if let Some(shown) = &item.diff {
            text.push_str(&diff(shown));
        }
    }
    text
}

/// A revision as JSON.
fn value(name: &str, record: &Record) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(record).context("writing the history")?;
    value["apiVersion"] = json!("cli.medley.dev/v1alpha1");
    value["kind"] = json!("Revision");
    value["metadata"] = json!({ "name": name });
    value["outcome"] = json!(record.outcome);
    Ok(value)
}
