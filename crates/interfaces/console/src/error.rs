//! Errors as pages.

use askama::Template;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::StatusCode;

use crate::layout::Layout;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// There is no session, or it has ended.
    #[error("sign in first")]
    SignedOut {
        /// Where to go after signing in.
        next: String,
    },
    /// The request failed; the page shows the message.
    #[error("{message}")]
    Failed {
        /// The status code.
        code: StatusCode,
        /// The reason, and the next step.
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
    fn failed(code: StatusCode, message: impl Into<String>) -> Self {
        Self::Failed {
            code,
            message: message.into(),
        }
    }

    /// 403.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::failed(StatusCode::FORBIDDEN, message)
    }

    /// 404.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::failed(StatusCode::NOT_FOUND, message)
    }

    /// The request is invalid or out of date.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::failed(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// 500: the console itself failed.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::failed(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// Maps an error of the API server.
    pub(crate) fn api(operation: &str, error: kube::Error) -> Self {
        match error {
            // The token has expired or was revoked while the session was open.
            kube::Error::Api(status) if status.code == 401 => Self::SignedOut {
                next: "/".to_owned(),
            },
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                Self::failed(code, format!("{operation}: {}", status.message))
            }
            other => Self::failed(
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
        Self::failed(code, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, message) = match self {
            Self::SignedOut { next } => {
                return Redirect::to(&crate::pages::sign_in::path(&next)).into_response();
            }
            Self::Failed { code, message } => (code, message),
        };
        let title = match code {
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::CONFLICT => "Changed in the meantime",
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => {
                "This action is not possible"
            }
            StatusCode::TOO_MANY_REQUESTS => "Too many attempts",
            _ => "Internal error",
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
