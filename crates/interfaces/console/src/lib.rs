//! The web console: the five jobs of Medley in a browser, with the permissions of the user.
//!
//! Pages are rendered on the server and work without JavaScript. Signing in creates a session with a
//! client that uses the credentials of the user; every read and write of the session goes through
//! that client. The console itself has no permissions in the cluster and needs none.
//!
//! ```text
//! request -> guard (host, origin, headers) -> resume (cookie -> session) -> Visitor -> page -> Viewer (caches) -> HTML
//!                                                                            |                 |
//!                                                                         form: csrf    SSE: which kinds changed
//! ```
//!
//! # Adding a page
//!
//! A page is one module in `src/pages/` and one template in `templates/`:
//!
//! 1. `src/pages/NAME.rs` has a constant `PAGE: Page`: its path, its label and its icon in the navigation,
//!    the plural names of the kinds whose changes refresh it, its routes, and its state for the
//!    overview (`standing`, which must not fail: unreadable kinds are left out).
//!    Add it to `pages::PAGES`, in the order of the navigation.
//! 2. A handler takes a [`Visitor`](visitor::Visitor), reads with `visitor.viewer().all::<Kind>()`
//!    (cached and kept current, limited by the user's permissions; `impl Shown for Kind {}` selects the
//!    fields that are kept), and returns `Page::html(&Template { layout: visitor.layout(..), .. })`.
//! 3. `templates/NAME.html` begins with `{% extends "layout.html" %}` and fills `{% block content %}`.
//!    The whole content is live: it is fetched and merged again on changes. Give elements with
//!    user state (`details`, inputs) an `id`, so that it is kept. The text of an element with
//!    `data-announce` is announced by screen readers when it changes.
//! 4. An action is a form with method POST and `{% include "csrf.html" %}`; its handler takes
//!    [`Fields`](visitor::Fields), which has checked the token, writes with `visitor.client()` as the field
//!    manager [`MANAGER`], and returns `visitor.done("what was done", "/where/next")`. Show the form only if
//!    `visitor.viewer().may(..)` allows it; the API server authorizes every write.
//! 5. No inline script or style: colours and sizes are classes of `assets/console.css`, and a picture is
//!    SVG with presentation attributes.

mod assets;
mod cookies;
mod derived;
mod error;
mod guard;
mod keys;
mod layout;
mod links;
mod live;
mod oidc;
mod pages;
mod permissions;
mod rate;
mod resume;
mod secret;
mod server;
mod session;
mod viewer;
mod visitor;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};
use platform::AddressPolicy;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use keys::{KeysError, SessionKeys};
pub use oidc::{Issuer, ProviderError, ProviderSettings};

use links::Links;
use oidc::Provider;
use rate::Attempts;
use session::Sessions;

/// Field manager of changes.
pub const MANAGER: &str = "medley-console";

/// Connection limits.
const LIMITS: serving::Limits = serving::Limits {
    clients: 1000,
    // All users may come from the address of one ingress.
    per_address: 500,
    // Browsers use HTTP/2 over TLS only.
    streams: Some(100),
    drain: Duration::from_secs(1),
};

/// Options of a console.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster to connect to. Its credentials are not used: users bring their own.
    pub cluster: Config,
    /// The namespace of the operator, where the history of plans is kept.
    pub namespace: String,
    /// Host names of the console, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether browsers connect over TLS.
    pub secure: bool,
    /// The version to show.
    pub version: String,
    /// Addresses of registries that the console may connect to: pods name their images, and users
    /// of the console have them inspected from here.
    pub addresses: AddressPolicy,
    /// The client whose mirrors, proxies and CA certificates apply to registry lookups.
    pub registries: oci::Client,
    /// The keys of session cookies: shared by replicas, or of this process.
    pub keys: SessionKeys,
    /// Where users can sign in, besides with a token.
    pub provider: Option<ProviderSettings>,
}

/// A console; clones share everything.
#[derive(Clone)]
pub struct Console {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    options: Options,
    sessions: Sessions,
    provider: Option<Provider>,
    links: Links,
    attempts: Attempts,
    stopping: watch::Sender<bool>,
}

impl Console {
    /// A console that does not listen yet.
    pub fn new(mut options: Options) -> Self {
        // No request may ever use the permissions of the user who runs the console.
        options.cluster.auth_info = kube::config::AuthInfo::default();
        let cluster = options.cluster.clone();
        let provider = options.provider.clone();
        Self {
            shared: Arc::new(Shared {
                sessions: Sessions::new(cluster.clone(), options.keys.clone()),
                provider: provider.map(|settings| Provider::new(settings, cluster)),
                options,
                links: Links::default(),
                attempts: Attempts::default(),
                stopping: watch::Sender::new(false),
            }),
        }
    }

    /// The path and query of a link that signs in once, as the user of this client, within
    /// [`Self::link_lifetime`].
    pub fn link(&self, client: Client) -> String {
        format!("/sign-in/link?code={}", self.shared.links.mint(client))
    }

    /// How long a link is valid.
    pub fn link_lifetime() -> Duration {
        links::LIFETIME
    }

    /// Serves until `stop` completes.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<serving::Tls>,
        stop: impl Future<Output = ()> + Send,
    ) {
        let router = server::router(self.clone());
        let stopping = async {
            stop.await;
            // Event streams would otherwise stay open for ever.
            self.shared.stopping.send_replace(true);
        };
        let serving = serving::serve(
            listener,
            tls,
            LIMITS,
            move |request| server::answer(router.clone(), request),
            stopping,
        );
        let sessions = &self.shared.sessions;
        tokio::select! {
            () = serving => {}
            // Never ends.
            () = sessions.keys.follow(|| sessions.drop_ended()) => {}
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}
