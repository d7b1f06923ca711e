//! One applied plan, with its changes.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;

use super::config::{RecordView, View, find, history};
use super::diff::{self, Line, Pair};
use super::{PATH, Page};
use crate::error::Problem;
use crate::layout::Layout;
use crate::visitor::Visitor;

/// A changed object.
struct Changed {
    name: String,
    target: String,
    lines: Vec<Line>,
    pairs: Vec<Pair>,
}

#[derive(Template)]
#[template(path = "revision.html")]
struct RevisionPage {
    layout: Layout,
    name: String,
    record: RecordView,
    message: String,
    version: String,
    items: Vec<Changed>,
    split: bool,
}

pub(super) async fn show(
    visitor: Visitor,
    Path((name, revision)): Path<(String, i64)>,
    Query(view): Query<View>,
) -> Result<Response, Problem> {
    // Users who may not read the configuration may not read its history.
    find(&visitor, &name).await?;
    let records = history(&visitor, &name).await.map_err(Problem::refused)?;
    let in_force = ::governance::user_patches::in_force(&records);
    let Some(record) = records.iter().find(|record| record.revision == revision) else {
        return Err(Problem::missing(format!(
            "The history of {name} has no revision {revision}."
        )));
    };
    let items = record.items.iter().map(|item| {
        let lines = diff::lines(item.diff.as_deref().unwrap_or_default());
        Changed {
            name: item.name.clone(),
            target: item.target_ref.to_string(),
            pairs: diff::pairs(&lines),
            lines,
        }
    });
    let outcome = record.outcome.as_ref();
    Page::html(&RevisionPage {
        layout: visitor.layout(format!("{name}, revision {revision}"), PATH),
        record: RecordView::new(record, in_force.contains(&revision)),
        message: outcome.map(|it| it.message.clone()).unwrap_or_default(),
        version: record.operator_version.clone(),
        items: items.collect(),
        split: view.is_split(),
        name,
    })
}
