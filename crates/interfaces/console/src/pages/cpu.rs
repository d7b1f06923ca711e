//! CPU models: support by nodes, use by virtual machines, VMs that cannot migrate or would gain
//! from a restart, and the effect of other nodes.

mod view;
mod what_if;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use cpu_models::matrix::Matrix;
use cpu_models::{Review, RunningVm};
use futures::FutureExt as _;

use self::view::CpuView;
use self::what_if::WhatIf;
use super::{Level, Notice, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Unavailable, Viewer, shown};
use crate::visitor::Visitor;

/// Path of the page.
const PATH: &str = "/cpu";

pub(crate) const PAGE: Page = Page {
    path: PATH,
    label: "CPU models",
    icon: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4",
    kinds: &[
        "nodes",
        "virtualmachineinstances",
        "cpumodelpolicies",
        "kubevirts",
        "pods",
    ],
    routes: || Router::new().route("/cpu", get(show)),
    standing: Some(|viewer| standing(viewer).boxed()),
};

/// VMs listed; a longer list is not read by users.
const MAX_LISTED: usize = 200;

/// A VM that may need attention.
struct Line {
    namespace: String,
    name: String,
    node: String,
    model: String,
    level: Level,
    state: String,
    why: String,
    targets: u32,
}

/// VMs with the same model.
#[derive(Default)]
struct Share {
    model: String,
    machines: usize,
    /// In percent of the most frequent model.
    width: usize,
    stranded: usize,
    stale: usize,
}

/// Data on VMs.
struct VmSummary {
    all: usize,
    shares: Vec<Share>,
    lines: Vec<Line>,
    /// Number of VMs that are not listed.
    more: usize,
    stranded: usize,
    stale: usize,
    undecided: usize,
}

/// A column of the heat map.
struct Column {
    model: String,
    year: String,
    choosable: bool,
}

/// A row of the heat map.
struct Row {
    node_class: String,
    names: String,
    nodes: usize,
    cells: Vec<Cell>,
}

/// Support of a model by a node class.
struct Cell {
    count: usize,
    /// Intensity: 0 to 4.
    heat: usize,
    title: String,
}

struct Map {
    title: String,
    nodes: usize,
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Template)]
#[template(path = "cpu.html")]
struct Cpu {
    layout: Layout,
    data: Result<PageData, Unavailable>,
}

struct PageData {
    maps: Vec<Map>,
    machines: Result<VmSummary, Unavailable>,
    what_if: WhatIf,
    complaints: Vec<String>,
}

async fn show(
    visitor: Visitor,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let view = shown(CpuView::of(visitor.viewer()).await)?;
    let data = view.map(|view| PageData {
        maps: view.matrices.iter().map(map).collect(),
        machines: match &view.machines {
            Ok(all) => Ok(machines(all.reviewed())),
            Err(unavailable) => Err(unavailable.clone()),
        },
        what_if: WhatIf::of(&view, &asked),
        complaints: view
            .settings
            .complaints
            .iter()
            .map(ToString::to_string)
            .collect(),
    });
    Page::html(&Cpu {
        layout: visitor.layout("CPU models", PATH),
        data,
    })
}

fn map(matrix: &Matrix) -> Map {
    let architecture = matrix.architecture.as_deref().unwrap_or("unknown");
    let vendor = matrix.vendor.as_ref().map(ToString::to_string);
    let title = match vendor {
        Some(vendor) => format!("{architecture} by {vendor}"),
        None => format!("{architecture}, vendor not labelled"),
    };
    let rows = matrix.rows.iter().map(|row| {
        let nodes = row.nodes.len();
        let node_class = row.host_model.clone();
        let node_class = node_class.unwrap_or_else(|| "generation not labelled".to_owned());
        let cells = row.support.iter().zip(&matrix.models);
        Row {
            cells: cells
                .map(|(&count, column)| Cell {
                    count,
                    heat: (count * 4).div_ceil(nodes.max(1)),
                    title: format!(
                        "{} of {nodes} {node_class} nodes support {}",
                        count, column.model
                    ),
                })
                .collect(),
            names: names(&row.nodes),
            node_class,
            nodes,
        }
    });
    Map {
        title,
        nodes: matrix.rows.iter().map(|row| row.nodes.len()).sum(),
        columns: matrix
            .models
            .iter()
            .map(|it| Column {
                model: it.model.clone(),
                year: it.year.map(|it| it.to_string()).unwrap_or_default(),
                choosable: it.choosable,
            })
            .collect(),
        rows: rows.collect(),
    }
}

/// The first names, and the number of further ones.
fn names(all: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn machines<'a>(reviewed: impl Iterator<Item = (&'a RunningVm, &'a Review)> + Clone) -> VmSummary {
    let mut by_model: BTreeMap<&str, Share> = BTreeMap::new();
    let (mut all, mut undecided) = (0, 0);
    for (_, review) in reviewed.clone() {
        let model = review.model.as_deref().unwrap_or("not chosen yet");
        let share = by_model.entry(model).or_insert_with(|| Share {
            model: model.to_owned(),
            ..Share::default()
        });
        share.machines += 1;
        share.stranded += usize::from(review.stranded.is_some());
        share.stale += usize::from(review.stale.is_some());
        undecided += usize::from(review.model.is_none());
        all += 1;
    }
    let mut shares: Vec<Share> = by_model.into_values().collect();
    let most = shares.iter().map(|it| it.machines).max().unwrap_or(1);
    for share in &mut shares {
        share.width = share.machines * 100 / most;
    }
    shares.sort_by(|a, b| b.machines.cmp(&a.machines).then(a.model.cmp(&b.model)));
    // The worst first, then in the given order, by name.
    let mut order: Vec<(&RunningVm, &Review)> = reviewed.collect();
    order.sort_by_key(|(_, review)| Reverse(level(review)));
    let listed = order.iter().take(MAX_LISTED);
    let sum = |of: fn(&Share) -> usize| shares.iter().map(of).sum();
    VmSummary {
        all,
        lines: listed
            .map(|(running, review)| line(running, review))
            .collect(),
        more: all.saturating_sub(MAX_LISTED),
        stranded: sum(|it| it.stranded),
        stale: sum(|it| it.stale),
        undecided,
        shares,
    }
}

/// Severity for a VM.
fn level(review: &Review) -> Level {
    use cpu_models::review::Stranded;
    match (&review.model, review.stranded, &review.stale) {
        (None, _, _) => Level::Busy,
        (_, Some(Stranded::NoTarget), _) => Level::Bad,
        (_, Some(_), _) | (_, None, Some(_)) => Level::Warn,
        (_, None, None) => Level::Good,
    }
}

fn line(running: &RunningVm, review: &Review) -> Line {
    let machine = &running.machine;
    let (state, why) = judged(review);
    Line {
        namespace: machine.namespace.clone(),
        name: machine.name.clone(),
        node: running.node.clone(),
        model: review.model.clone().unwrap_or_default(),
        level: level(review),
        state: state.to_owned(),
        why,
        targets: review.targets,
    }
}

/// State of a VM, as a label and a sentence.
fn judged(review: &Review) -> (&'static str, String) {
    use cpu_models::review::Stranded;
    if review.model.is_none() {
        let why = "No model has been chosen for it yet.".to_owned();
        return ("Undecided", why);
    }
    let newer = review
        .stale
        .as_ref()
        .map(|stale| format!("A restart would give it {}.", stale.model));
    match (review.stranded, newer) {
        (Some(Stranded::NoTarget), _) => (
            "Stranded",
            "No other node could run it: it cannot be migrated.".to_owned(),
        ),
        (Some(_), _) => (
            "Stranded",
            format!(
                "Only {} nodes support its model; {} are needed.",
                review.supporters,
                review.threshold.map_or(0, |it| it.nodes)
            ),
        ),
        (None, Some(newer)) => ("Stale", newer),
        (None, None) => ("Fine", String::new()),
    }
}

/// State of the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let view = CpuView::of(viewer).await.ok()?;
    let machines = view.machines.as_ref().ok()?;
    let node_classes: usize = view.matrices.iter().map(|it| it.rows.len()).sum();
    let stranded = |it: &(&RunningVm, &Review)| it.1.stranded.is_some();
    let mut notices = Vec::new();
    let stale = machines.reviewed();
    let stale = stale.filter(|(_, it)| it.stale.is_some() && it.stranded.is_none());
    let stale = stale.count();
    if stale > 0 {
        notices.push(Notice {
            level: Level::Warn,
            subject: match stale {
                1 => "1 virtual machine".to_owned(),
                count => format!("{count} virtual machines"),
            },
            text: "would get a newer CPU model after a restart.".to_owned(),
            href: format!("{PATH}#machines"),
        });
    }
    let stuck = machines.reviewed().filter(stranded);
    notices.extend(stuck.take(MAX_LISTED).map(|(running, review)| Notice {
        level: level(review),
        subject: format!("{}/{}", running.machine.namespace, running.machine.name),
        text: format!("is stranded. {}", judged(review).1),
        href: format!("{PATH}#machines"),
    }));
    let stuck = machines.reviewed().filter(stranded).count();
    Some(Standing {
        headline: format!(
            "{node_classes} node classes, {} virtual machines",
            machines.running.len()
        ),
        notices,
        more: stuck.saturating_sub(MAX_LISTED),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_lists_are_counted() {
        let all: Vec<String> = (0..10).map(|it| format!("n{it}")).collect();
        assert_eq!(names(&all[..2]), "n0, n1");
        assert!(names(&all).ends_with("n7 and 2 more"), "{}", names(&all));
    }

    #[test]
    fn vms_are_counted_by_model_with_the_worst_first() {
        let undecided = Review {
            model: None,
            node_known: true,
            supporters: 0,
            targets: 0,
            threshold: None,
            stranded: None,
            stale: None,
        };
        let fine = Review {
            model: Some("EPYC".to_owned()),
            ..undecided.clone()
        };
        let stuck = Review {
            stranded: Some(cpu_models::review::Stranded::NoTarget),
            ..fine.clone()
        };
        let running = |name: &str| {
            let mut running = RunningVm::default();
            running.machine.name = name.to_owned();
            running
        };
        let (a, b, c) = (running("a"), running("b"), running("c"));
        let all = [(&a, &fine), (&b, &stuck), (&c, &undecided)];
        let data = machines(all.into_iter());
        assert_eq!((data.all, data.stranded, data.undecided), (3, 1, 1));
        assert_eq!(data.shares[0].model, "EPYC");
        assert_eq!((data.shares[0].machines, data.shares[0].stranded), (2, 1));
        let order: Vec<&str> = data.lines.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }
}
