//! What went wrong, as a page.

use askama::Template;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::StatusCode;

use crate::layout::Layout;

/// Why there is no answer, or nothing was done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// Nobody is signed in, or not any more.
    #[error("sign in first")]
    SignedOut {
        /// Where to go after signing in.
        next: String,
    },
    /// It cannot be answered or done.
    #[error("{message}")]
    Told {
        /// The code of the answer.
        code: StatusCode,
        /// Why, and what would be accepted.
        message: String,
    },
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    layout: Layout,
    title: &'static str,
    message: String,
}

impl Problem {
    fn told(code: StatusCode, message: impl Into<String>) -> Self {
        Self::Told {
            code,
            message: message.into(),
        }
    }

    /// It is not allowed.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::told(StatusCode::FORBIDDEN, message)
    }

    /// It is not there.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::told(StatusCode::NOT_FOUND, message)
    }

    /// What was asked for makes no sense, or not any more.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::told(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// The console itself does not work.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::told(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// What the API server said to something.
    pub(crate) fn api(operation: &str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 401 => Self::SignedOut {
                next: "/".to_owned(),
            },
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                Self::told(code, format!("{operation}: {}", status.message))
            }
            other => Self::told(
                StatusCode::BAD_GATEWAY,
                format!("{operation}: the cluster cannot be reached: {other}"),
            ),
        }
    }
}

impl From<runtime::Error> for Problem {
    fn from(error: runtime::Error) -> Self {
        let code = match (&error, error.code()) {
            (_, Some(401)) => {
                return Self::SignedOut {
                    next: "/".to_owned(),
                };
            }
            (runtime::Error::Api { .. }, None) => StatusCode::BAD_GATEWAY,
            (_, None) => StatusCode::UNPROCESSABLE_ENTITY,
            (_, Some(code)) => StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY),
        };
        Self::told(code, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, message) = match self {
            Self::SignedOut { next } => {
                return Redirect::to(&crate::pages::sign_in::path(&next)).into_response();
            }
            Self::Told { code, message } => (code, message),
        };
        let title = match code {
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::CONFLICT => "Changed in the meantime",
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => "This cannot be done",
            StatusCode::TOO_MANY_REQUESTS => "Too many attempts",
            _ => "Something went wrong",
        };
        let page = ProblemPage {
            layout: Layout::bare(title),
            title,
            message: message.clone(),
        };
        match page.render() {
            Ok(html) => (code, Html(html)).into_response(),
            Err(_) => (code, message).into_response(),
        }
    }
}
