//! Signing in at the identity provider.

use std::time::Instant;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use http::StatusCode;
use http::request::Parts;
use jiff::Timestamp;
use serde::Deserialize;

use super::{SignInQuery, blocked, enter_with, layout, page, remember};
use crate::Console;
use crate::cookies::{CookieJar, SameSite, authority};
use crate::error::Problem;
use crate::keys::Purpose;
use crate::layout::Layout;
use crate::oidc::{self, CALLBACK, Provider, SIGN_IN_TIMEOUT, SignInState};
use crate::pages::Page;
use crate::secret;
use crate::server::{local, peer};
use crate::session::{Bearer, Credentials};

/// Where signing in at the provider begins.
pub(super) const BEGIN: &str = "/sign-in/provider";
/// Cookie of a sign-in that has begun.
const STATE: &str = "sign-in";
/// Length limit of codes: they are sent on to the provider.
const MAX_CODE_LENGTH: usize = 4096;

/// Continues to a page. A redirect would be part of the navigation that the provider's site has begun,
/// and browsers would not send the new session's cookie with it (`SameSite=Strict`).
#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedIn {
    layout: Layout,
    next: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProviderAnswer {
    code: String,
    state: String,
    iss: Option<String>,
    error: Option<String>,
    error_description: String,
}

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(BEGIN, get(begin))
        .route(CALLBACK, get(finish))
}

fn provider(console: &Console) -> Result<&Provider, Problem> {
    let provider = console.shared().provider.as_ref();
    provider.ok_or_else(|| Problem::missing("This console has no identity provider."))
}

async fn begin(
    State(console): State<Console>,
    Query(asked): Query<SignInQuery>,
    parts: Parts,
) -> Result<Response, Problem> {
    let provider = provider(&console)?;
    let next = local(asked.next.as_deref());
    if let Some(wait) = blocked(&console, &parts, next)? {
        return Ok(wait);
    }
    let shared = console.shared();
    let secure = shared.options.secure;
    let scheme = if secure { "https" } else { "http" };
    // The guard accepts the names of this console only.
    let host = authority(&parts.uri, &parts.headers).unwrap_or_default();
    let now = Timestamp::now();
    let (state, url) = match provider
        .begin(&format!("{scheme}://{host}"), next, now)
        .await
    {
        Ok(begun) => begun,
        Err(error) => {
            let problem = Some((StatusCode::BAD_GATEWAY, error.to_string()));
            return page(&console, &parts, next, problem);
        }
    };
    let text = serde_json::to_vec(&state).unwrap_or_default();
    let sealed = shared.sessions.keys.seal(Purpose::SignIn, &text, now);
    let sealed = sealed.ok_or_else(|| Problem::broken("There is no key for the cookie."))?;
    let mut response = Redirect::to(&url).into_response();
    let jar = CookieJar::of(&parts, secure);
    let seconds = SIGN_IN_TIMEOUT.unsigned_abs().as_secs();
    // Lax: the provider's site sends the browser back.
    jar.set(&mut response, STATE, &sealed, seconds, SameSite::Lax)?;
    Ok(response)
}

async fn finish(
    State(console): State<Console>,
    Query(answer): Query<ProviderAnswer>,
    parts: Parts,
) -> Result<Response, Problem> {
    let provider = provider(&console)?;
    if let Some(wait) = blocked(&console, &parts, "/")? {
        return Ok(wait);
    }
    let jar = CookieJar::of(&parts, console.shared().options.secure);
    let Some(state) = state(&console, &jar, &parts, &answer) else {
        // Not counted as a failed attempt: any site can send a browser here.
        let problem = "This sign-in was not begun in this browser, or it took more than ten minutes. \
                       Try again.";
        let problem = Some((StatusCode::BAD_REQUEST, problem.to_owned()));
        return page(&console, &parts, "/", problem);
    };
    let next = local(Some(&state.next));
    let mut response = match exchange(&console, provider, &parts, &state, &answer).await {
        Ok(response) => response,
        Err(problem) => {
            // An outage of the provider is no attempt of the user.
            if problem.0 == StatusCode::UNAUTHORIZED {
                let attempts = &console.shared().attempts;
                attempts.failed(peer(&parts), Instant::now());
            }
            page(&console, &parts, next, Some(problem))?
        }
    };
    // A state is used once, whether it succeeds or not.
    jar.delete(&mut response, &parts, STATE)?;
    Ok(response)
}

/// The sign-in that an answer belongs to, if this browser has begun it.
fn state(
    console: &Console,
    jar: &CookieJar,
    parts: &Parts,
    answer: &ProviderAnswer,
) -> Option<SignInState> {
    let sealed = jar.get(parts, STATE)?;
    let keys = &console.shared().sessions.keys;
    let state = keys.open(Purpose::SignIn, &sealed)?;
    let state: SignInState = serde_json::from_slice(&state).ok()?;
    let is_own = secret::same(&state.state, &answer.state) && !state.is_over(Timestamp::now());
    is_own.then_some(state)
}

async fn exchange(
    console: &Console,
    provider: &Provider,
    parts: &Parts,
    state: &SignInState,
    answer: &ProviderAnswer,
) -> Result<Response, (StatusCode, String)> {
    let refused = |why: String| (StatusCode::UNAUTHORIZED, why);
    if let Some(error) = &answer.error {
        let why = oidc::readable(error, &answer.error_description);
        return Err(refused(format!(
            "The identity provider did not sign you in: {why}"
        )));
    }
    if answer.code.is_empty() || answer.code.len() > MAX_CODE_LENGTH {
        return Err(refused(
            "The answer of the identity provider has no code.".to_owned(),
        ));
    }
    let issuer = answer.iss.as_deref();
    let tokens = provider
        .finish(state, &answer.code, issuer, Timestamp::now())
        .await
        .map_err(|error| {
            let code = match error {
                oidc::SignInError::Unavailable(_) => StatusCode::BAD_GATEWAY,
                oidc::SignInError::Refused(_) | oidc::SignInError::Token(_) => {
                    StatusCode::UNAUTHORIZED
                }
            };
            (code, error.to_string())
        })?;
    let bearer = Bearer::new(&tokens.bearer);
    let bearer = bearer.ok_or_else(|| refused("The token is not a token.".to_owned()))?;
    let credentials = Credentials::Provider(tokens);
    let entered = enter_with(console, parts, &bearer, credentials).await;
    let session = entered.map_err(|why| (StatusCode::BAD_GATEWAY, why))?;
    let session = session.ok_or_else(|| {
        refused(
            "The API server does not accept the token of the identity provider. It has to be \
             configured with the same issuer and client ID."
                .to_owned(),
        )
    })?;
    let failed = |problem: Problem| (StatusCode::INTERNAL_SERVER_ERROR, problem.to_string());
    let mut response = Page::html(&SignedIn {
        layout: layout(console, parts, "Signed in"),
        next: local(Some(&state.next)).to_owned(),
    })
    .map_err(failed)?;
    remember(console, parts, &mut response, &session).map_err(failed)?;
    Ok(response)
}
