//! The web console: the five jobs of Medley in a browser, with nobody's rights but the user's.
//!
//! Pages are rendered here and are readable without JavaScript. Whoever signs in gets a session that
//! holds a client with their own credentials; everything shown was read, and everything done was
//! written, by that client. The console itself has no rights in the cluster and needs none.
//!
//! ```text
//! request -> guard (host, origin, headers) -> Visitor (session) -> page -> Viewer (caches) -> HTML
//!                                                 |                  |
//!                                              form: csrf     SSE: which kinds changed
//! ```
//!
//! # Adding a page
//!
//! A page is one module in `src/pages/` and one template in `templates/`:
//!
//! 1. `src/pages/NAME.rs` has a constant `PAGE: Page`: its path, its label and its icon in the navigation,
//!    the plural names of the kinds that have it rendered again when they change, its routes, and what it
//!    tells the overview (`standing`, which must not fail: what cannot be seen is left out).
//!    Add it to `pages::PAGES`, in the order of the navigation.
//! 2. A handler takes a [`Visitor`](visitor::Visitor), reads with `visitor.viewer().all::<Kind>()`
//!    (cached and kept current, only what the user may see; `impl Shown for Kind {}` names what is kept
//!    of an object), and answers `Page::html(&Template { layout: visitor.layout(..), .. })`.
//! 3. `templates/NAME.html` begins with `{% extends "layout.html" %}` and fills `{% block content %}`.
//!    The whole content is live: it is fetched and merged again when something changed. Give
//!    elements whose state is the reader's (`details`, inputs) an `id`, so that it is kept. An element with
//!    `data-announce` has its text told to screen readers when it changes.
//! 4. What is done is a form with method POST and `{% include "csrf.html" %}`; its handler takes
//!    [`Fields`](visitor::Fields), which has checked the token, writes with `visitor.client()` as the field
//!    manager [`MANAGER`], and answers `visitor.done("what was done", "/where/next")`. Show the form only if
//!    `visitor.viewer().may(..)` says so; the API server has the last word.
//! 5. No inline script or style: colours and sizes are classes of `assets/console.css`, and a picture is
//!    SVG with presentation attributes.

mod assets;
mod error;
mod guard;
mod layout;
mod links;
mod live;
mod pages;
mod rate;
mod rights;
mod secret;
mod server;
mod session;
mod viewer;
mod visitor;
mod worked;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};
use platform::AddressPolicy;
use tokio::net::TcpListener;
use tokio::sync::watch;

use links::Links;
use rate::Attempts;
use session::Sessions;

/// Who changes objects, in `managedFields`.
pub const MANAGER: &str = "medley-console";

/// How clients are kept in bounds.
const LIMITS: serving::Limits = serving::Limits {
    clients: 1000,
    // All users may come from the address of one ingress.
    per_address: 500,
    // Browsers speak HTTP/2 over TLS only.
    streams: Some(100),
    drain: Duration::from_secs(1),
};

/// What a console has to be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// How the cluster is reached. Its credentials are not used: users bring their own.
    pub cluster: Config,
    /// The namespace of the operator, where the history of plans is kept.
    pub namespace: String,
    /// Names that the console is reached by, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether browsers reach it by TLS.
    pub secure: bool,
    /// The version, as it is shown.
    pub version: String,
    /// Which addresses registries are asked at: pods name their images, and users of the console have them looked
    /// at from here.
    pub addresses: AddressPolicy,
}

/// A console; clones share everything.
#[derive(Clone)]
pub struct Console {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    options: Options,
    sessions: Sessions,
    links: Links,
    attempts: Attempts,
    stopping: watch::Sender<bool>,
}

impl Console {
    /// A console that nobody reaches yet.
    pub fn new(mut options: Options) -> Self {
        // Nothing may ever be done with the rights of whoever runs the console.
        options.cluster.auth_info = kube::config::AuthInfo::default();
        Self {
            shared: Arc::new(Shared {
                options,
                sessions: Sessions::default(),
                links: Links::default(),
                attempts: Attempts::default(),
                stopping: watch::Sender::new(false),
            }),
        }
    }

    /// The path and query of a link that signs in once, as the user of this client, and only soon.
    pub fn link(&self, client: Client) -> String {
        format!("/sign-in/link?code={}", self.shared.links.mint(client))
    }

    /// How long a link can be used.
    pub fn link_lifetime() -> Duration {
        links::LIFETIME
    }

    /// Answers browsers until `stop`.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<serving::Tls>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let port = listener.local_addr().map_or(0, |address| address.port());
        let router = server::router(self.clone(), port);
        let stopping = async {
            stop.await;
            // Those who wait for changes would wait for ever.
            self.shared.stopping.send_replace(true);
        };
        serving::serve(
            listener,
            tls,
            LIMITS,
            move |request| server::answer(router.clone(), request),
            stopping,
        )
        .await;
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}
