//! The session of a request, and the fields of a form with a valid CSRF token.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Form, RequestExt as _};
use http::request::Parts;
use kube::Client;

use crate::Console;
use crate::cookies;
use crate::error::Problem;
use crate::layout::{Layout, Theme};
use crate::resume::{Notice, Resumption};
use crate::secret;
use crate::session::Session;
use crate::viewer::Viewer;

/// The CSRF field of forms.
const CSRF: &str = "csrf";

/// A signed-in user at a page.
pub(crate) struct Visitor {
    pub(crate) console: Console,
    pub(crate) session: Arc<Session>,
    notice: Notice,
    theme: Theme,
    /// The path and query of the request.
    here: String,
}

impl Visitor {
    /// The user's caches.
    pub(crate) fn viewer(&self) -> &Viewer {
        &self.session.viewer
    }

    /// The user's own client.
    pub(crate) fn client(&self) -> &Client {
        self.session.viewer.client()
    }

    /// The namespace of the operator.
    pub(crate) fn namespace(&self) -> &str {
        &self.console.shared().options.namespace
    }

    /// The layout for a page.
    pub(crate) fn layout(&self, title: impl Into<String>, section: &'static str) -> Layout {
        Layout {
            user: Some(self.session.user.clone()),
            csrf: self.session.csrf.clone(),
            notice: self.notice.take(),
            section,
            here: self.here.clone(),
            theme: self.theme,
            version: self.console.shared().options.version.clone(),
            ..Layout::bare(title)
        }
    }

    /// Redirects to another page, which shows a message.
    pub(crate) fn done(&self, what: impl Into<String>, next: &str) -> Response {
        // In a cookie, since another replica may show the next page.
        self.notice.set(&what.into());
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
        let resumed = parts.extensions.get::<Resumption>();
        let Some(Resumption { session, notice }) = resumed.cloned() else {
            // After signing in, a form is not submitted again.
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
            notice,
            theme: theme(parts),
            here,
        })
    }
}

/// The theme in the browser's cookie.
pub(crate) fn theme(parts: &Parts) -> Theme {
    cookies::value(parts, Theme::COOKIE).map_or(Theme::Auto, |name| Theme::named(&name))
}

/// The fields of a form.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// One field, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// All fields of a name, such as ticked checkboxes.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.trim())
    }

    /// A required field.
    pub(crate) fn need(&self, name: &str) -> Result<&str, Problem> {
        self.get(name)
            .ok_or_else(|| Problem::invalid(format!("The form lacks the field {name:?}.")))
    }

    /// The fields of a form without a CSRF check, for forms that are sent before there is a
    /// session.
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
        // The session before the body: a form without a session is redirected to the sign-in page
        // and not read.
        let visitor = Visitor::from_request_parts(&mut parts, console).await?;
        let fields = Self::unchecked(Request::from_parts(parts, body)).await?;
        let token = fields.get(CSRF).unwrap_or_default();
        // A second line behind the check of `Origin`, which another application passes that a proxy
        // serves from the same origin.
        if secret::same(token, &visitor.session.csrf) {
            return Ok(fields);
        }
        Err(Problem::refused(
            "The form is not of this session, so nothing was done. Reload the page and try again.",
        ))
    }
}
