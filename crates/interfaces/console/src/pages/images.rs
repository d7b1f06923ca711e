//! Golden images: every boot image for every architecture, and the version in use.

mod act;
mod image;
mod ownership;
mod view;

use std::collections::BTreeSet;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use futures::FutureExt as _;
use golden_images::overview::{Image, State, Variant, human_size};
use jiff::Timestamp;
use machinery::time::human_duration;

use super::{Level, Notice, Page, Standing, short_digest};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Unavailable, Viewer, shown};
use crate::visitor::Visitor;
use ownership::Ownership;
use view::read;

/// Path of the page.
const PATH: &str = "/images";

pub(crate) const PAGE: Page = Page {
    path: PATH,
    label: "Golden images",
    icon: "M4 7l8-4 8 4v10l-8 4-8-4zM4 7l8 4 8-4M12 11v10",
    kinds: &[
        "dataimportcrons",
        "datasources",
        "datavolumes",
        "goldenimagepolicies",
        "persistentvolumeclaims",
        "volumesnapshots",
    ],
    routes: || {
        Router::new()
            .route("/images", get(list))
            .route("/images/{namespace}/{name}", get(image::show))
            .route("/images/{namespace}/{name}/{action}", post(act::act))
    },
    standing: Some(|viewer| standing(viewer).boxed()),
};

/// An image of an architecture.
struct Cell {
    state: &'static str,
    level: Level,
    /// Import progress, in percent.
    progress: Option<String>,
    reason: Option<String>,
    digest: String,
    age: String,
    size: String,
    is_default: bool,
    is_pinned: bool,
}

/// An image.
struct Row {
    name: String,
    namespace: String,
    href: String,
    cells: Vec<Option<Cell>>,
}

#[derive(Template)]
#[template(path = "images.html")]
struct Images {
    layout: Layout,
    matrix: Result<Matrix, Unavailable>,
    complaints: Vec<String>,
    ownership: Ownership,
}

struct Matrix {
    architectures: Vec<String>,
    rows: Vec<Row>,
    several_namespaces: bool,
}

async fn list(visitor: Visitor) -> Result<Response, Problem> {
    let view = shown(read(visitor.viewer()).await)?;
    let complaints = view.as_ref().map(|it| it.complaints.clone());
    let policy = view
        .as_ref()
        .ok()
        .and_then(|it| it.objects.policy.object.as_ref());
    let ownership = policy.map(Ownership::of).unwrap_or_default();
    Page::html(&Images {
        layout: visitor.layout("Golden images", PATH),
        complaints: complaints.unwrap_or_default(),
        ownership,
        matrix: view.map(|view| Matrix::of(&view.objects.images(), view.objects.now)),
    })
}

impl Matrix {
    fn of(images: &[Image], now: Timestamp) -> Self {
        let variants = images.iter().flat_map(|image| &image.architectures);
        let architectures: BTreeSet<&str> = variants.map(|it| it.architecture.as_str()).collect();
        let mut architectures: Vec<String> = architectures.into_iter().map(str::to_owned).collect();
        // Images without an architecture are the exception, and come last.
        architectures.sort_by_key(String::is_empty);
        let rows = images.iter().map(|image| Row {
            name: image.name.clone(),
            namespace: image.namespace.clone(),
            href: href(image),
            cells: architectures
                .iter()
                .map(|name| {
                    let of = image
                        .architectures
                        .iter()
                        .find(|it| it.architecture == *name);
                    of.map(|variant| Cell::new(variant, now))
                })
                .collect(),
        });
        let namespaces: BTreeSet<&str> = images.iter().map(|it| it.namespace.as_str()).collect();
        Self {
            rows: rows.collect(),
            several_namespaces: namespaces.len() > 1,
            architectures,
        }
    }
}

impl Cell {
    fn new(variant: &Variant, now: Timestamp) -> Self {
        let age = variant
            .since
            .map(|it| human_duration(now.duration_since(it)));
        Self {
            state: state_word(variant),
            level: level(variant),
            progress: percent(variant),
            reason: variant
                .reason
                .clone()
                .filter(|_| variant.state != State::Ready),
            digest: variant
                .digest
                .as_deref()
                .map(short_digest)
                .unwrap_or_default(),
            age: age.unwrap_or_default(),
            size: variant.size.as_deref().map(human_size).unwrap_or_default(),
            is_default: variant.is_default,
            is_pinned: variant.pinned.is_some(),
        }
    }
}

/// Page of an image.
fn href(image: &Image) -> String {
    format!("{}/{}/{}", PATH, image.namespace, image.name)
}

/// Import progress as a number.
fn percent(variant: &Variant) -> Option<String> {
    let progress = variant.progress.as_deref()?.strip_suffix('%')?;
    let number: f64 = progress.parse().ok()?;
    (0.0..=100.0).contains(&number).then(|| progress.to_owned())
}

/// Text of the state.
fn state_word(variant: &Variant) -> &'static str {
    match variant.state {
        State::Ready if variant.importing.is_some() => "Ready, updating",
        State::Ready => "Ready",
        State::Pending if variant.importing.is_some() => "Importing",
        State::Pending => "Pending",
        State::Failed => "Failed",
        State::Leaving => "Leaving",
    }
}

fn level(variant: &Variant) -> Level {
    match variant.state {
        State::Failed => Level::Bad,
        State::Leaving => Level::Warn,
        _ if variant.import_failed => Level::Warn,
        State::Ready => Level::Good,
        State::Pending => Level::Busy,
    }
}

/// State of the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let images = read(viewer).await.ok()?.objects.images();
    let all = || images.iter().flat_map(|image| &image.architectures);
    let ready = all().filter(|it| it.state == State::Ready).count();
    let mut notices = Vec::new();
    let mut importing = 0;
    for image in &images {
        for variant in &image.architectures {
            let text = match variant.state {
                State::Failed => variant
                    .message
                    .clone()
                    .unwrap_or_else(|| "cannot be imported.".to_owned()),
                State::Leaving => {
                    "will be deleted: no node has its architecture any more.".to_owned()
                }
                _ => {
                    importing += usize::from(variant.importing.is_some());
                    continue;
                }
            };
            notices.push(Notice {
                level: level(variant),
                subject: variant.data_source.clone(),
                text,
                href: href(image),
            });
        }
    }
    if importing > 0 {
        notices.push(Notice {
            level: Level::Busy,
            subject: match importing {
                1 => "1 import".to_owned(),
                count => format!("{count} imports"),
            },
            text: "under way.".to_owned(),
            href: PATH.to_owned(),
        });
    }
    let count = images.len();
    let plural = if count == 1 { "" } else { "s" };
    Some(Standing {
        headline: format!(
            "{count} image{plural}, {ready} of {} disks ready",
            all().count()
        ),
        notices,
        more: 0,
    })
}
