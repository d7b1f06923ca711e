//! Authentication and authorization of requests to endpoints that are not API objects, such as
//! `/metrics`.
//!
//! The API server reviews the token (TokenReview) and the access of its user (SubjectAccessReview,
//! `nonResourceURLs` in a ClusterRole), as controller-runtime's metrics filter does. Verdicts are
//! cached, so that a Prometheus scrape costs two requests a minute. The cache is bounded because any
//! client can send tokens.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::warn;

use crate::Error;

/// How long an allowed request stays cached.
const ALLOWED_TTL: Duration = Duration::from_mins(1);
/// How long a denied request stays cached: a new role binding should take effect soon.
const DENIED_TTL: Duration = Duration::from_secs(10);
/// Upper bound of cached verdicts.
const MAX_CACHED: usize = 1024;
/// Upper bound of concurrent reviews, so that clients with random tokens cannot flood the API server.
const MAX_CONCURRENT_REVIEWS: usize = 8;
/// Longer tokens are rejected without a review.
// Service account tokens have about 1 KiB, OIDC tokens with many groups a few. The token is a key of the cache below,
// so this bound times `MAX_CACHED` is the most memory that unauthenticated clients can occupy: 16 MiB.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The outcome of an access check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessVerdict {
    /// The user may perform the request.
    Allowed,
    /// The token is missing or was not authenticated.
    Unknown,
    /// The user is authenticated but not permitted.
    Forbidden,
}

/// Reviews access through the API server; clones share the cache.
#[derive(Clone)]
pub struct EndpointAuthorizer {
    client: Client,
    verdicts: Arc<Mutex<HashMap<AccessRequest, (AccessVerdict, Instant)>>>,
    permits: Arc<Semaphore>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AccessRequest {
    token: String,
    verb: &'static str,
    path: &'static str,
}

impl EndpointAuthorizer {
    /// An empty cache. The client needs permission to create `tokenreviews` and `subjectaccessreviews`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            verdicts: Arc::default(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REVIEWS)),
        }
    }

    /// Whether the user of this token may access a path; the verb is the HTTP method in lower case.
    pub async fn ask(
        &self,
        token: Option<&str>,
        verb: &'static str,
        path: &'static str,
    ) -> Result<AccessVerdict, Error> {
        let token = token.filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES);
        let Some(token) = token else {
            return Ok(AccessVerdict::Unknown);
        };
        let request = AccessRequest {
            token: token.to_owned(),
            verb,
            path,
        };
        if let Some(verdict) = self.cached(&request) {
            return Ok(verdict);
        }
        // The semaphore is never closed, so this cannot fail.
        let _permit = self.permits.acquire().await;
        // A concurrent request may have cached the verdict while this one waited for the permit.
        if let Some(verdict) = self.cached(&request) {
            return Ok(verdict);
        }
        let verdict = self.review(&request).await?;
        self.store(request, verdict);
        Ok(verdict)
    }

    /// The response that denies a request; `None` if it is allowed.
    pub async fn refusal(
        &self,
        headers: &HeaderMap,
        verb: &'static str,
        path: &'static str,
    ) -> Option<Response<String>> {
        let (status, message) = match self.ask(bearer(headers), verb, path).await {
            Ok(AccessVerdict::Allowed) => return None,
            Ok(AccessVerdict::Unknown) => (
                StatusCode::UNAUTHORIZED,
                "Unauthorized: send a Kubernetes token as \"Authorization: Bearer TOKEN\"\n"
                    .to_owned(),
            ),
            Ok(AccessVerdict::Forbidden) => (
                StatusCode::FORBIDDEN,
                format!("Forbidden: no ClusterRole allows {verb} on nonResourceURL {path}\n"),
            ),
            // Fail closed, and with 503 instead of 403: Prometheus then shows the target as down because of the API
            // server, and administrators do not search their RBAC rules for an error that is not there.
            Err(error) => {
                warn!(%error, path, "cannot check access; denying the request");
                let message =
                    "Service unavailable: cannot reach the API server to check access\n".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, message)
            }
        };
        let mut refusal = Response::new(message);
        *refusal.status_mut() = status;
        if status == StatusCode::UNAUTHORIZED {
            let wanted = HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, wanted);
        }
        Some(refusal)
    }

    fn cached(&self, request: &AccessRequest) -> Option<AccessVerdict> {
        let verdicts = self.verdicts.lock();
        let (verdict, until) = verdicts.get(request)?;
        (Instant::now() < *until).then_some(*verdict)
    }

    fn store(&self, request: AccessRequest, verdict: AccessVerdict) {
        let now = Instant::now();
        // controller-runtime caches allowed access for five minutes and denied access for thirty seconds
        // (`pkg/metrics/filters/filters.go`). Both are shorter here: a revoked permission should not serve metrics
        // that long, and the difference is two requests a minute for each client that scrapes.
        let ttl = if verdict == AccessVerdict::Allowed {
            ALLOWED_TTL
        } else {
            DENIED_TTL
        };
        let mut verdicts = self.verdicts.lock();
        if verdicts.len() >= MAX_CACHED {
            verdicts.retain(|_, (_, until)| now < *until);
        }
        if verdicts.len() >= MAX_CACHED {
            // The cache is full of unexpired verdicts, as when a client tries random tokens: keep the
            // allowed ones.
            verdicts.retain(|_, (verdict, _)| *verdict == AccessVerdict::Allowed);
        }
        if verdicts.len() < MAX_CACHED {
            verdicts.insert(request, (verdict, now + ttl));
        }
    }

    async fn review(&self, request: &AccessRequest) -> Result<AccessVerdict, Error> {
        let Some(user) = self.authenticate(&request.token).await? else {
            return Ok(AccessVerdict::Unknown);
        };
        let spec = SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(request.path.to_owned()),
                verb: Some(request.verb.to_owned()),
            }),
            resource_attributes: None,
        };
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(Error::api(format!(
            "checking whether user {:?} may {} {}",
            user.username.unwrap_or_default(),
            request.verb,
            request.path
        )))?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            AccessVerdict::Allowed
        } else {
            AccessVerdict::Forbidden
        })
    }

    /// The user a token belongs to; `None` if the API server does not authenticate it.
    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                // Without audiences the API server's own apply, so that the token that Prometheus has from its
                // projected volume is accepted.
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(Error::api("creating a TokenReview"))?;
        let status = answer.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}
