//! The first page: what the fleet is made of, and what needs attention.

mod fleet;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use std::cmp::Reverse;

use super::{Level, Notice, PAGES, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::Unseen;
use crate::visitor::Visitor;
use fleet::Picture;

pub(crate) const PAGE: Page = Page {
    path: "/",
    label: "Overview",
    icon: "M4 4h7v7H4zM13 4h7v4h-7zM13 11h7v9h-7zM4 14h7v6H4z",
    // What the jobs are about counts, too.
    kinds: &[
        "nodes",
        "virtplatformconfigs",
        "dataimportcrons",
        "datasources",
        "cpumodelpolicies",
        "clusterversions",
        "pods",
    ],
    routes: || Router::new().route("/", get(show)),
    standing: None,
};

/// How it is with one job.
struct Job {
    page: Page,
    standing: Standing,
}

impl Job {
    fn level(&self) -> Level {
        self.standing.level()
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    layout: Layout,
    picture: Result<Picture, Unseen>,
    jobs: Vec<Job>,
    notices: Vec<(&'static str, Notice)>,
}

async fn show(visitor: Visitor) -> Result<Response, Problem> {
    let viewer = visitor.viewer();
    let looking = PAGES.iter().filter_map(|page| {
        let standing = page.standing?;
        Some(async move {
            Some(Job {
                page: *page,
                standing: standing(viewer).await?,
            })
        })
    });
    let (nodes, jobs) = tokio::join!(viewer.all::<Node>(), join_all(looking));
    if nodes == Err(Unseen::SignedOut) {
        return Err(Unseen::SignedOut.into());
    }
    let jobs: Vec<Job> = jobs.into_iter().flatten().collect();
    let mut notices: Vec<(&'static str, Notice)> = jobs
        .iter()
        .flat_map(|job| {
            let notices = job.standing.notices.iter().cloned();
            notices.map(|notice| (job.page.label, notice))
        })
        .collect();
    // The worst first; among equals as the jobs tell them.
    notices.sort_by_key(|(_, notice)| Reverse(notice.level));
    Page::html(&Overview {
        layout: visitor.layout("Overview", PAGE.path),
        picture: nodes.map(|nodes| Picture::of(&nodes)),
        jobs,
        notices,
    })
}
