//! Signing in and out, authenticated by the API server alone.

mod provider;

use http::uri::PathAndQuery;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Router;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::RETRY_AFTER;
use http::request::Parts;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;

use super::Page;
use crate::cookies::CookieJar;
use crate::error::Problem;
use crate::layout::Layout;
use crate::resume::{self, Resumption};
use crate::server::{local, peer};
use crate::session::{Bearer, Credentials, Session};
use crate::visitor::{Fields, Visitor, theme};
use crate::{Console, session};

/// Timeout of the SelfSubjectReview.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Length limit of tokens: servers limit the size of headers.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    layout: Layout,
    next: String,
    problem: Option<String>,
    /// The name of the identity provider, and where signing in there begins.
    provider: Option<(String, String)>,
}

#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage {
    layout: Layout,
    code: String,
    usable: bool,
}

#[derive(Debug, Default, Deserialize)]
struct SignInQuery {
    #[serde(default)]
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Coded {
    #[serde(default)]
    code: String,
}

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/sign-in", get(form).post(by_token))
        .route("/sign-in/link", get(link).post(by_link))
        .route("/sign-out", post(sign_out))
        .merge(provider::routes())
}

/// The sign-in page, with the page to go to afterwards.
pub(crate) fn path(next: &str) -> String {
    returning("/sign-in", next)
}

/// A path of signing in, with the page to go to afterwards.
fn returning(path: &str, next: &str) -> String {
    let next = local(Some(next));
    if next == "/" {
        return path.to_owned();
    }
    let mut path = format!("{path}?next=");
    for byte in next.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' => path.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

fn layout(console: &Console, parts: &Parts, title: &str) -> Layout {
    Layout {
        theme: theme(parts),
        here: local(parts.uri.path_and_query().map(PathAndQuery::as_str)).to_owned(),
        version: console.shared().options.version.clone(),
        ..Layout::bare(title)
    }
}

async fn form(
    State(console): State<Console>,
    Query(asked): Query<SignInQuery>,
    parts: Parts,
) -> Result<Response, Problem> {
    page(&console, &parts, local(asked.next.as_deref()), None)
}

/// The sign-in page.
fn page(
    console: &Console,
    parts: &Parts,
    next: &str,
    problem: Option<(StatusCode, String)>,
) -> Result<Response, Problem> {
    let (code, problem) = problem.unzip();
    let provider = console.shared().provider.as_ref();
    let mut response = Page::html(&SignIn {
        layout: layout(console, parts, "Sign in"),
        next: next.to_owned(),
        problem,
        provider: provider.map(|it| (it.name(), returning(provider::BEGIN, next))),
    })?;
    *response.status_mut() = code.unwrap_or(StatusCode::OK);
    Ok(response)
}

/// The page that says how long to wait, if too many attempts from this address have failed.
fn blocked(console: &Console, parts: &Parts, next: &str) -> Result<Option<Response>, Problem> {
    let attempts = &console.shared().attempts;
    let Err(wait) = attempts.check(peer(parts), Instant::now()) else {
        return Ok(None);
    };
    let seconds = wait.as_secs().max(1);
    let problem = format!("Too many attempts failed. Try again in {seconds} seconds.");
    let code = StatusCode::TOO_MANY_REQUESTS;
    let mut response = page(console, parts, next, Some((code, problem)))?;
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    Ok(Some(response))
}

async fn by_token(State(console): State<Console>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let fields = Fields::unchecked(Request::from_parts(parts.clone(), body)).await?;
    let next = local(fields.get("next")).to_owned();
    // Before the token is used: a blocked address must not reach the API server.
    if let Some(wait) = blocked(&console, &parts, &next)? {
        return Ok(wait);
    }
    let again = |code, problem: &str| {
        let problem = Some((code, problem.to_owned()));
        page(&console, &parts, &next, problem)
    };
    let refused = || {
        let attempts = &console.shared().attempts;
        attempts.failed(peer(&parts), Instant::now());
        again(
            StatusCode::UNAUTHORIZED,
            "The API server does not accept this token. It may have expired or be incomplete.",
        )
    };
    let token = fields.get("token").unwrap_or_default();
    let is_token = !token.is_empty()
        && token.len() <= MAX_TOKEN_LENGTH
        // A token with a line break would otherwise be an error of the HTTP client, and look like
        // an unreachable cluster.
        && token.chars().all(|c| c.is_ascii_graphic());
    let Some(bearer) = Bearer::new(token).filter(|_| is_token) else {
        return refused();
    };
    let credentials = Credentials::Token(token.to_owned());
    let entered = enter_with(&console, &parts, &bearer, credentials).await;
    match entered {
        Ok(Some(session)) => {
            let mut response = Redirect::to(&next).into_response();
            remember(&console, &parts, &mut response, &session)?;
            Ok(response)
        }
        Ok(None) => refused(),
        Err(why) => again(StatusCode::BAD_GATEWAY, &why),
    }
}

async fn link(
    State(console): State<Console>,
    Query(coded): Query<Coded>,
    parts: Parts,
) -> Result<Response, Problem> {
    // A GET does not use up the link: link previews and prefetching would.
    Page::html(&LinkPage {
        layout: layout(&console, &parts, "Sign in"),
        usable: console.shared().links.holds(&coded.code),
        code: coded.code,
    })
}

async fn by_link(State(console): State<Console>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let fields = Fields::unchecked(Request::from_parts(parts.clone(), body)).await?;
    let code = fields.get("code").unwrap_or_default();
    let Some(client) = console.shared().links.redeem(code) else {
        let mut response = Page::html(&LinkPage {
            layout: layout(&console, &parts, "Sign in"),
            usable: false,
            code: String::new(),
        })?;
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(response);
    };
    match enter(&console, &parts, client, Credentials::Local, None).await {
        Ok(Some(session)) => {
            let mut response = Redirect::to("/").into_response();
            remember(&console, &parts, &mut response, &session)?;
            Ok(response)
        }
        Ok(None) => Err(Problem::refused(
            "The API server does not authenticate the creator of this link.",
        )),
        Err(why) => Err(Problem::broken(why)),
    }
}

/// Begins a session with a bearer token.
async fn enter_with(
    console: &Console,
    parts: &Parts,
    bearer: &Bearer,
    credentials: Credentials,
) -> Result<Option<Arc<Session>>, String> {
    let cluster = &console.shared().options.cluster;
    let client = session::client(cluster, bearer)
        .map_err(|why| format!("The cluster cannot be reached: {why}"))?;
    enter(console, parts, client, credentials, Some(bearer.clone())).await
}

/// Begins a session for the user that the API server authenticates; `None` if it does not.
async fn enter(
    console: &Console,
    parts: &Parts,
    client: Client,
    credentials: Credentials,
    bearer: Option<Bearer>,
) -> Result<Option<Arc<Session>>, String> {
    let known = tokio::time::timeout(REVIEW_TIMEOUT, session::whoami(&client)).await;
    let user = match known {
        Ok(Ok(Some(user))) => user,
        Ok(Ok(None)) => return Ok(None),
        Ok(Err(error)) => {
            return Err(format!(
                "The API server cannot be reached to authenticate you: {error}"
            ));
        }
        Err(_) => return Err("The API server did not authenticate you in time.".to_owned()),
    };
    let sessions = &console.shared().sessions;
    // Signing in again ends the previous session.
    if let Some(Resumption { session, .. }) = parts.extensions.get() {
        sessions.end(session);
    }
    Ok(Some(sessions.begin(
        user,
        client,
        credentials,
        bearer,
        Timestamp::now(),
    )))
}

/// Sets the cookie of a new session.
fn remember(
    console: &Console,
    parts: &Parts,
    response: &mut Response,
    session: &Session,
) -> Result<(), Problem> {
    let jar = CookieJar::of(parts, console.shared().options.secure);
    resume::write(console, &jar, response, session).inspect_err(|_| {
        // Its caches would stay in memory although no request can have it.
        console.shared().sessions.end(session);
    })
}

async fn sign_out(visitor: Visitor, parts: Parts, _checked: Fields) -> Result<Response, Problem> {
    let shared = visitor.console.shared();
    shared.sessions.end(&visitor.session);
    let mut response = Redirect::to("/sign-in").into_response();
    let jar = CookieJar::of(&parts, shared.options.secure);
    jar.delete(&mut response, &parts, resume::SESSION)?;
    Ok(response)
}
