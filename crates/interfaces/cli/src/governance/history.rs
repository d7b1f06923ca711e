//! `medley history`: the applied plans, their approvers and outcomes.

use std::fmt::Write as _;

use ::governance::record::Record;
use ::governance::user_patches::list_valid_names;
use anyhow::{Context as _, bail};
use clap::Args;
use cluster_view::history::records;
use kube::ResourceExt;
use machinery::time::format_time;
use serde_json::{Value, json};

use super::configs::configs;
use super::source::HistoryArguments;
use crate::cluster::ClusterArguments;
use crate::output::{
    Format, FormatParser, TableForm, TemplateArguments, diff, list, short_digest, table,
};
use crate::{exit, process};

/// Show the plans that were applied.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the VirtPlatformConfig.
    /// [default: all]
    name: Option<String>,

    /// Show one revision, with its changes as unified diffs.
    #[arg(long, value_name = "REVISION", requires = "name")]
    revision: Option<i64>,

    /// Output format; also jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE,
    /// custom-columns=HEADER:PATH,... and custom-columns-file=FILE.
    #[arg(short, long, value_parser = FormatParser::<TableForm>::new())]
    #[arg(default_value = "table")]
    output: Format<TableForm>,

    #[command(flatten)]
    template: TemplateArguments,

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
            (Some(data), Some(_), [(name, record)]) => {
                data.write(&value(name, record)?, &self.template)
            }
            (Some(data), _, _) => {
                let items: Vec<Value> = all
                    .iter()
                    .map(|(name, record)| value(name, record))
                    .collect::<anyhow::Result<_>>()?;
                data.write(&list(&items), &self.template)
            }
            (None, Some(_), [(name, record)]) => Ok(one(name, record)),
            (None, _, []) => Ok("no plan has been applied\n".to_owned()),
            (None, _, _) => Ok(self.listed(all)),
        }
    }

    fn listed(&self, all: &[(String, Record)]) -> String {
        let wide = self.output.named() == Some(TableForm::Wide);
        let named = wide || self.name.is_none();
        let mut headers = vec!["REVISION", "DIGEST", "IMPACT", "APPROVED BY"];
        headers.extend(["STARTED", "OUTCOME", "FINISHED"]);
        if named {
            headers.insert(0, "NAME");
        }
        if wide {
            headers.extend(["UNDOES", "ITEMS", "VERSION", "MESSAGE"]);
        }
        let rows = all.iter().map(|(name, record)| {
            let mut row = Vec::from(cells(record));
            if named {
                row.insert(0, name.clone());
            }
            if wide {
                let version = record.operator_version.clone();
                row.extend([undoes(record), names(record), version, message(record)]);
            }
            row
        });
        table(&headers, rows)
    }
}

fn cells(record: &Record) -> [String; 7] {
    let (outcome, finished) = match &record.outcome {
        Some(it) => (format!("{:?}", it.result), format_time(it.finished.0)),
        None => ("<pending>".to_owned(), String::new()),
    };
    [
        record.revision.to_string(),
        short_digest(&record.plan_digest),
        record.impact.to_string(),
        record.approved_by.join(","),
        format_time(record.started.0),
        outcome,
        finished,
    ]
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
        let text = Some(text).filter(|text| !text.is_empty());
        text.unwrap_or_else(|| "<none>".to_owned())
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
