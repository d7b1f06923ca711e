//! The first page: what the fleet is made of, and what needs attention.

mod fleet;

use std::cmp::Reverse;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;

use super::{Level, Notice, PAGES, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::Unseen;
use crate::visitor::Visitor;
use crate::worked::Worked;
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

/// So many notices of one job are told.
const TOLD: usize = 8;

/// The picture of the fleet.
#[derive(Clone)]
struct Drawn(Arc<Picture>);

impl Worked for Drawn {
    type From = Vec<Arc<Node>>;

    fn work(nodes: &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let picture = Picture::of(nodes);
        match before {
            Some((_, before)) if *before.0 == picture => before,
            _ => Self(Arc::new(picture)),
        }
    }
}

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
    picture: Result<Arc<Picture>, Unseen>,
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
    let picture = match nodes {
        Err(Unseen::SignedOut) => return Err(Unseen::SignedOut.into()),
        Err(unseen) => Err(unseen),
        Ok(nodes) => viewer.worked(nodes).await.map(|Drawn(picture)| picture),
    };
    let jobs: Vec<Job> = jobs.into_iter().flatten().collect();
    let mut notices: Vec<(&'static str, Notice)> = Vec::new();
    for job in &jobs {
        let told = few(&job.standing, job.page.path);
        notices.extend(told.into_iter().map(|notice| (job.page.label, notice)));
    }
    // The worst first; among equals as the jobs tell them.
    notices.sort_by_key(|(_, notice)| Reverse(notice.level));
    Page::html(&Overview {
        layout: visitor.layout("Overview", PAGE.path),
        picture,
        jobs,
        notices,
    })
}

/// The worst of what a job tells, and how much more there is: a page that nobody reads to its end helps nobody.
fn few(standing: &Standing, href: &str) -> Vec<Notice> {
    let mut all: Vec<&Notice> = standing.notices.iter().collect();
    all.sort_by_key(|notice| Reverse(notice.level));
    // One more is told as soon as it is counted.
    let told = if all.len() <= TOLD + 1 {
        all.len()
    } else {
        TOLD
    };
    let rest = all.split_off(told);
    let more = rest.first().map(|worst| Notice {
        level: worst.level,
        subject: format!("{} more", rest.len() + standing.more),
        text: "like these; the page has them all.".to_owned(),
        href: href.to_owned(),
    });
    all.into_iter().cloned().chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_told_and_the_rest_is_counted() {
        let notice = |at: usize| Notice {
            level: if at == 29 { Level::Bad } else { Level::Warn },
            subject: format!("n{at}"),
            text: String::new(),
            href: String::new(),
        };
        let all: Vec<Notice> = (0..30).map(notice).collect();
        let standing = |notices: &[Notice], more| Standing {
            notices: notices.to_vec(),
            more,
            ..Standing::default()
        };
        let told: Vec<String> = few(&standing(&all, 5), "/x")
            .into_iter()
            .map(|it| it.subject)
            .collect();
        assert_eq!(told.len(), TOLD + 1);
        assert_eq!((told[0].as_str(), told[1].as_str()), ("n29", "n0"));
        assert_eq!(told[TOLD], format!("{} more", 35 - TOLD));
        assert_eq!(
            few(&standing(&all[..=TOLD], 0), "/x").len(),
            TOLD + 1,
            "none is only counted"
        );
    }
}
