//! The first page: the fleet, and what needs attention.

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
use crate::derived::Derived;
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Unavailable, shown};
use crate::visitor::Visitor;
use fleet::Picture;

pub(crate) const PAGE: Page = Page {
    path: "/",
    label: "Overview",
    icon: "M4 4h7v7H4zM13 4h7v4h-7zM13 11h7v9h-7zM4 14h7v6H4z",
    // The kinds of the jobs refresh it, too.
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

/// Notices shown per job.
const MAX_NOTICES: usize = 8;

/// The picture of the fleet.
#[derive(Clone)]
struct Drawn(Arc<Picture>);

impl Derived for Drawn {
    type From = Vec<Arc<Node>>;

    fn compute(nodes: &Self::From, before: Option<(Self::From, Self)>) -> Self {
        let picture = Picture::of(nodes);
        match before {
            Some((_, before)) if *before.0 == picture => before,
            _ => Self(Arc::new(picture)),
        }
    }
}

/// State of one job.
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
    picture: Result<Arc<Picture>, Unavailable>,
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
    // All jobs at once: each may wait for its first list, and the page should take as long as the
    // slowest, not as their sum.
    let (nodes, jobs) = tokio::join!(viewer.all::<Node>(), join_all(looking));
    let picture = match shown(nodes)? {
        Err(unavailable) => Err(unavailable),
        Ok(nodes) => viewer.derived(nodes).await.map(|Drawn(picture)| picture),
    };
    let jobs: Vec<Job> = jobs.into_iter().flatten().collect();
    let mut notices: Vec<(&'static str, Notice)> = Vec::new();
    for job in &jobs {
        let shown = few(&job.standing, job.page.path);
        notices.extend(shown.into_iter().map(|notice| (job.page.label, notice)));
    }
    // The worst first, then in the order of the jobs.
    notices.sort_by_key(|(_, notice)| Reverse(notice.level));
    Page::html(&Overview {
        layout: visitor.layout("Overview", PAGE.path),
        picture,
        jobs,
        notices,
    })
}

/// The worst notices of a job, and a line for the rest: a longer list is not read to its end.
fn few(standing: &Standing, href: &str) -> Vec<Notice> {
    let mut all: Vec<&Notice> = standing.notices.iter().collect();
    all.sort_by_key(|notice| Reverse(notice.level));
    // One further notice is shown instead of a line that counts it.
    let shown = if all.len() <= MAX_NOTICES + 1 {
        all.len()
    } else {
        MAX_NOTICES
    };
    let rest = all.split_off(shown);
    let more = rest.first().map(|worst| Notice {
        level: worst.level,
        subject: format!("{} more", rest.len() + standing.more),
        text: "notices; see the page.".to_owned(),
        href: href.to_owned(),
    });
    all.into_iter().cloned().chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_notices_are_shown_and_the_rest_counted() {
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
        let shown: Vec<String> = few(&standing(&all, 5), "/x")
            .into_iter()
            .map(|it| it.subject)
            .collect();
        assert_eq!(shown.len(), MAX_NOTICES + 1);
        assert_eq!((shown[0].as_str(), shown[1].as_str()), ("n29", "n0"));
        assert_eq!(shown[MAX_NOTICES], format!("{} more", 35 - MAX_NOTICES));
        assert_eq!(
            few(&standing(&all[..=MAX_NOTICES], 0), "/x").len(),
            MAX_NOTICES + 1,
            "none is only counted"
        );
    }
}
