//! Signing in and out, authenticated by the API server alone.

use http::uri::PathAndQuery;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Router;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::RETRY_AFTER;
use http::request::Parts;
use kube::Client;
use serde::Deserialize;

use super::Page;
use crate::error::Problem;
use crate::layout::Layout;
use crate::server::{local, peer, set_cookie};
use crate::visitor::{Fields, Visitor, cookie, session_cookie, theme};
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
}

/// The sign-in page, with the page to go to afterwards.
pub(crate) fn path(next: &str) -> String {
    let next = local(Some(next));
    if next == "/" {
        return "/sign-in".to_owned();
    }
    let mut path = "/sign-in?next=".to_owned();
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
    Page::html(&SignIn {
        layout: layout(&console, &parts, "Sign in"),
        next: local(asked.next.as_deref()).to_owned(),
        problem: None,
    })
}

async fn by_token(State(console): State<Console>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let fields = Fields::unchecked(Request::from_parts(parts.clone(), body)).await?;
    let next = local(fields.get("next")).to_owned();
    let again = |code: StatusCode, problem: String| -> Result<Response, Problem> {
        let mut response = Page::html(&SignIn {
            layout: layout(&console, &parts, "Sign in"),
            next: next.clone(),
            problem: Some(problem),
        })?;
        *response.status_mut() = code;
        Ok(response)
    };
    let from = peer(&parts);
    let attempts = &console.shared().attempts;
    // Before the token is used: a blocked address must not reach the API server.
    if let Err(wait) = attempts.check(from, Instant::now()) {
        let seconds = wait.as_secs().max(1);
        let mut response = again(
            StatusCode::TOO_MANY_REQUESTS,
            format!("Too many attempts failed. Try again in {seconds} seconds."),
        )?;
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
        return Ok(response);
    }
    let token = fields.get("token").unwrap_or_default();
    let is_token = !token.is_empty()
        && token.len() <= MAX_TOKEN_LENGTH
        // A token with a line break would otherwise be an error of the HTTP client, and look like
        // an unreachable cluster.
        && token.chars().all(|c| c.is_ascii_graphic());
    let refused = |console: &Console| {
        console.shared().attempts.failed(from, Instant::now());
        again(
            StatusCode::UNAUTHORIZED,
            "The API server does not accept this token. It may have expired or be incomplete."
                .to_owned(),
        )
    };
    if !is_token {
        return refused(&console);
    }
    let cluster = &console.shared().options.cluster;
    let client = session::client(cluster, token)
        .map_err(|why| Problem::broken(format!("The cluster cannot be reached: {why}")))?;
    match enter(&console, &parts, client, &next).await {
        Ok(Some(response)) => Ok(response),
        Ok(None) => refused(&console),
        Err(why) => again(StatusCode::BAD_GATEWAY, why),
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
    match enter(&console, &parts, client, "/").await {
        Ok(Some(response)) => Ok(response),
        Ok(None) => Err(Problem::refused(
            "The API server does not authenticate the creator of this link.",
        )),
        Err(why) => Err(Problem::broken(why)),
    }
}

/// Begins a session for the user that the API server authenticates; `None` if it does not.
async fn enter(
    console: &Console,
    parts: &Parts,
    client: Client,
    next: &str,
) -> Result<Option<Response>, String> {
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
    let cookie_name = session_cookie(console, parts);
    // Signing in again ends the previous session.
    if let Some(old) = cookie(parts, &cookie_name) {
        sessions.end(&old);
    }
    let name = sessions.begin(user, client);
    let mut response = Redirect::to(next).into_response();
    let cookie = session_value(console, &cookie_name, &name, session::longest().as_secs());
    set_cookie(&mut response, &cookie).map_err(|problem| problem.to_string())?;
    Ok(Some(response))
}

async fn sign_out(visitor: Visitor, parts: Parts, _checked: Fields) -> Result<Response, Problem> {
    let name = session_cookie(&visitor.console, &parts);
    if let Some(session) = cookie(&parts, &name) {
        visitor.console.shared().sessions.end(&session);
    }
    let mut response = Redirect::to("/sign-in").into_response();
    set_cookie(
        &mut response,
        &session_value(&visitor.console, &name, "", 0),
    )?;
    Ok(response)
}

/// The cookie of a session.
fn session_value(console: &Console, name: &str, value: &str, seconds: u64) -> String {
    let secure = console.shared().options.secure;
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}
