//! Who asks: the session of a request, and the fields of a form that was really theirs.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Form, RequestExt as _};
use http::header::COOKIE;
use http::request::Parts;
use kube::Client;

use crate::Console;
use crate::error::Problem;
use crate::layout::{Layout, Theme};
use crate::secret;
use crate::server::Port;
use crate::session::Session;
use crate::viewer::Viewer;

/// The field that forms carry.
const CSRF: &str = "csrf";

/// Somebody who is signed in, at a page.
pub(crate) struct Visitor {
    pub(crate) console: Console,
    pub(crate) session: Arc<Session>,
    theme: Theme,
    /// The path and query they are at.
    here: String,
}

impl Visitor {
    /// What they see.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.session.viewer
    }

    /// Their own client.
    pub(crate) fn client(&self) -> &Client {
        self.session.viewer.client()
    }

    /// The namespace of the operator.
    pub(crate) fn namespace(&self) -> &str {
        &self.console.shared().options.namespace
    }

    /// What is around a page.
    pub(crate) fn layout(&self, title: impl Into<String>, section: &'static str) -> Layout {
        Layout {
            user: Some(self.session.user.clone()),
            csrf: self.session.csrf.clone(),
            told: self.session.told(),
            section,
            here: self.here.clone(),
            theme: self.theme,
            version: self.console.shared().options.version.clone(),
            ..Layout::bare(title)
        }
    }

    /// Goes on at another page, which says what was done.
    pub(crate) fn done(&self, what: impl Into<String>, next: &str) -> Response {
        self.session.tell(what.into());
        Redirect::to(next).into_response()
    }
}

impl FromRequestParts<Console> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Problem> {
        let here = parts
            .uri
            .path_and_query()
            .map_or("/", |it| it.as_str())
            .to_owned();
        let session = cookie(parts, &session_cookie(console, parts))
            .and_then(|name| console.shared().sessions.find(&name));
        let Some(session) = session else {
            // What was to be done is not done after signing in: a form is not sent twice.
            let next = if parts.method == http::Method::GET {
                here
            } else {
                "/".to_owned()
            };
            return Err(Problem::SignedOut { next });
        };
        Ok(Self {
            console: console.clone(),
            session,
            theme: theme(parts),
            here,
        })
    }
}

/// The colours that a browser asks for.
pub(crate) fn theme(parts: &Parts) -> Theme {
    cookie(parts, Theme::COOKIE).map_or(Theme::Auto, |name| Theme::named(&name))
}

/// The name of the cookie. Browsers do not keep the cookies of two ports apart, so the name does.
pub(crate) fn session_cookie(console: &Console, parts: &Parts) -> String {
    let port = parts.extensions.get::<Port>().map_or(0, |port| port.0);
    // The prefix has browsers refuse it from anywhere else.
    let prefix = if console.shared().options.secure {
        "__Host-"
    } else {
        ""
    };
    format!("{prefix}medley-session-{port}")
}

/// A cookie that was sent.
pub(crate) fn cookie(parts: &Parts, name: &str) -> Option<String> {
    let headers = parts.headers.get_all(COOKIE).into_iter();
    let pairs = headers
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned())
}

/// The fields of a form.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// One field; nothing is said by an empty one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// All fields of a name, as the boxes that were ticked.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.trim())
    }

    /// One that has to be there.
    pub(crate) fn need(&self, name: &str) -> Result<&str, Problem> {
        self.get(name)
            .ok_or_else(|| Problem::invalid(format!("The form lacks its field {name:?}.")))
    }

    /// The fields of any form, for those that are sent before there is a session.
    pub(crate) async fn unchecked(request: Request) -> Result<Self, Problem> {
        let form: Result<Form<Vec<(String, String)>>, _> = request.extract().await;
        match form {
            Ok(Form(fields)) => Ok(Self(fields)),
            Err(error) => Err(Problem::invalid(format!(
                "The form cannot be read: {error}"
            ))),
        }
    }
}

impl FromRequest<Console> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, console).await?;
        let fields = Self::unchecked(Request::from_parts(parts, body)).await?;
        let token = fields.get(CSRF).unwrap_or_default();
        if secret::same(token, &visitor.session.csrf) {
            return Ok(fields);
        }
        Err(Problem::refused(
            "The form is not of this session, so nothing was done. Reload the page and try again.",
        ))
    }
}
