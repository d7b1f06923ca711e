//! The session of a request: read from its cookie before the handler, and written again after it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::debug;

use crate::Console;
use crate::cookies::{CookieJar, SameSite};
use crate::error::Problem;
use crate::keys::Purpose;
use crate::oidc::SignInError;
use crate::secret;
use crate::session::{self, Resumed, Session};

/// Cookie of the session.
pub(crate) const SESSION: &str = "session";
/// Cookie of the message for the next page.
const NOTICE: &str = "notice";
/// How long a message waits for its page, in seconds.
const NOTICE_SECONDS: u64 = 60;
/// Longest message, so that it fits into one cookie.
const MAX_NOTICE: usize = 1500;

/// The message of the last action for the next page, and the one of this action.
#[derive(Clone, Default)]
pub(crate) struct Notice(Arc<Mutex<Messages>>);

#[derive(Default)]
struct Messages {
    shown: Option<String>,
    next: Option<String>,
}

impl Notice {
    /// Takes the message, so that it is shown once.
    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().shown.take()
    }

    /// Shows a message on the next page.
    pub(crate) fn set(&self, message: &str) {
        self.0.lock().next = Some(message.chars().take(MAX_NOTICE).collect());
    }
}

/// The session of a request: an extension of it.
#[derive(Clone)]
pub(crate) struct Resumption {
    pub(crate) session: Arc<Session>,
    pub(crate) notice: Notice,
}

/// Reads the cookies of a request, and adds those of the response.
pub(crate) async fn resume(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    // They are the same for all users, and cached.
    if request.uri().path().starts_with("/assets/") {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let jar = CookieJar::of(&parts, console.shared().options.secure);
    let now = Timestamp::now();
    let Some(resumed) = find(&console, &jar, &parts, now).await else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let message = message(&console, &jar, &parts, &resumed.session);
    let had_message = message.is_some();
    let resumption = Resumption {
        session: Arc::clone(&resumed.session),
        notice: Notice(Arc::new(Mutex::new(Messages {
            shown: message,
            next: None,
        }))),
    };
    let notice = resumption.notice.clone();
    parts.extensions.insert(resumption);
    let asked = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let (is_taken, message) = {
        let mut messages = notice.0.lock();
        (messages.shown.is_none(), messages.next.take())
    };
    let written = if let Some(message) = message {
        let text = format!("{}\n{message}", resumed.session.csrf);
        let keys = &console.shared().sessions.keys;
        let sealed = keys.seal(Purpose::Notice, text.as_bytes(), now);
        let sealed = sealed.unwrap_or_default();
        let site = SameSite::Strict;
        jar.set(&mut response, NOTICE, &sealed, NOTICE_SECONDS, site)
    } else if had_message && is_taken {
        jar.delete(&mut response, &asked, NOTICE)
    } else {
        Ok(())
    };
    // A message that cannot be shown is not worth failing a request that has succeeded.
    if let Err(error) = written {
        debug!(%error, "a message for the next page is lost");
    }
    let sessions = &console.shared().sessions;
    // Signing in or out has written it: in this response, or in that of another request, whose cookie
    // this one must not replace.
    let is_replaced = jar.is_set(&response, SESSION) || sessions.is_ended(&resumed.session);
    if resumed.is_stale
        && !is_replaced
        && let Err(error) = write(&console, &jar, &mut response, &resumed.session)
    {
        // Its tokens have become too large. The browser keeps the former cookie.
        debug!(%error, "the cookie of a session cannot be renewed");
    }
    response
}

/// Writes the cookie of a session.
pub(crate) fn write(
    console: &Console,
    jar: &CookieJar,
    response: &mut Response,
    session: &Session,
) -> Result<(), Problem> {
    let sessions = &console.shared().sessions;
    let sealed = sessions
        .cookie(session, Timestamp::now())
        .ok_or_else(|| Problem::broken("There is no key for the cookie of the session."))?;
    let seconds = session::longest().as_secs();
    jar.set(response, SESSION, &sealed, seconds, SameSite::Strict)
}

/// The session of the cookie, with tokens that are valid for a while.
async fn find(
    console: &Console,
    jar: &CookieJar,
    parts: &Parts,
    now: Timestamp,
) -> Option<Resumed> {
    let sessions = &console.shared().sessions;
    let cookie = jar.get(parts, SESSION)?;
    let mut resumed = sessions.resume(&cookie, now)?;
    let Some(provider) = &console.shared().provider else {
        return Some(resumed);
    };
    if !provider.is_due(&resumed.session, now) {
        return Some(resumed);
    }
    resumed.is_stale = true;
    // In a task of its own: a browser that disconnects must not lose the answer of a provider that
    // accepts a refresh token once.
    let task = tokio::spawn(renew(console.clone(), Arc::clone(&resumed.session), now));
    let is_valid = task.await.unwrap_or_default();
    is_valid.then_some(resumed)
}

/// Renews the tokens of a session; returns whether it continues.
async fn renew(console: Console, session: Arc<Session>, now: Timestamp) -> bool {
    let shared = console.shared();
    let Some(provider) = &shared.provider else {
        return true;
    };
    let _one = session.renewal.lock().await;
    // Another request may have renewed them meanwhile.
    let Some(tokens) = session.tokens().filter(|_| provider.is_due(&session, now)) else {
        return true;
    };
    match provider.renew(&tokens, now).await {
        Ok(tokens) => session.renew(tokens),
        Err(error @ SignInError::Unavailable(_)) => {
            // The token is valid for some seconds; then the API server rejects it, and the user has
            // to sign in.
            debug!(%error, "cannot renew the token of a session");
        }
        Err(error) => {
            debug!(%error, user = session.user, "the session of a user ends");
            shared.sessions.end(&session);
            return false;
        }
    }
    true
}

/// The message for this page.
fn message(console: &Console, jar: &CookieJar, parts: &Parts, session: &Session) -> Option<String> {
    let sealed = jar.get(parts, NOTICE)?;
    let keys = &console.shared().sessions.keys;
    let text = String::from_utf8(keys.open(Purpose::Notice, &sealed)?).ok()?;
    // Not that of the user who was signed in before.
    let (csrf, message) = text.split_once('\n')?;
    secret::same(csrf, &session.csrf).then(|| message.to_owned())
}
