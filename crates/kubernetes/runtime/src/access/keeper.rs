//! Who may ask a process for something that is not an object: its metrics, say.
//!
//! Tokens are reviewed by the cluster, and so is whether their owner may (`nonResourceURLs` in a role), as
//! controller-runtime's filter does it. Answers are kept for a while, so that Prometheus costs two requests
//! a minute, and how many are kept is bounded, as anybody may come with a token.

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

/// How long a yes counts.
const YES: Duration = Duration::from_mins(1);
/// How long a no counts: rights that were just given should work soon.
const NO: Duration = Duration::from_secs(10);
/// How many answers are kept.
const KEPT: usize = 1024;
/// How many questions the cluster is asked at once.
const AT_ONCE: usize = 8;
/// No token is longer.
const LONGEST: usize = 16 << 10;

/// What becomes of somebody who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They may.
    Allowed,
    /// Nobody knows who they are.
    Unknown,
    /// They may not.
    Forbidden,
}

/// Asks the cluster who may; clones share what is known.
#[derive(Clone)]
pub struct Keeper {
    client: Client,
    known: Arc<Mutex<HashMap<Question, (Verdict, Instant)>>>,
    asking: Arc<Semaphore>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    token: String,
    verb: &'static str,
    path: &'static str,
}

impl Keeper {
    /// Nobody is known yet. The client needs the rights to create `tokenreviews` and
    /// `subjectaccessreviews`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
            asking: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Whether whoever has this token may do something to a path; the verb is the method in lower case.
    pub async fn ask(
        &self,
        token: Option<&str>,
        verb: &'static str,
        path: &'static str,
    ) -> Result<Verdict, Error> {
        let token = token.filter(|token| !token.is_empty() && token.len() <= LONGEST);
        let Some(token) = token else {
            return Ok(Verdict::Unknown);
        };
        let question = Question {
            token: token.to_owned(),
            verb,
            path,
        };
        if let Some(verdict) = self.remembered(&question) {
            return Ok(verdict);
        }
        // It is never closed.
        let _asking = self.asking.acquire().await;
        // Whoever was before may have asked the same.
        if let Some(verdict) = self.remembered(&question) {
            return Ok(verdict);
        }
        let verdict = self.find_out(&question).await?;
        self.remember(question, verdict);
        Ok(verdict)
    }

    /// What to answer to a request that may not be granted; nothing if it may.
    pub async fn refusal(
        &self,
        headers: &HeaderMap,
        verb: &'static str,
        path: &'static str,
    ) -> Option<Response<String>> {
        let (status, message) = match self.ask(bearer(headers), verb, path).await {
            Ok(Verdict::Allowed) => return None,
            Ok(Verdict::Unknown) => (
                StatusCode::UNAUTHORIZED,
                "a token of the cluster is needed: Authorization: Bearer TOKEN\n".to_owned(),
            ),
            Ok(Verdict::Forbidden) => (
                StatusCode::FORBIDDEN,
                format!("no role allows to {verb} nonResourceURL {path}\n"),
            ),
            Err(error) => {
                warn!(%error, path, "nobody can be let in");
                let message = "the cluster cannot be asked who may\n".to_owned();
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

    fn remembered(&self, question: &Question) -> Option<Verdict> {
        let known = self.known.lock();
        let (verdict, until) = known.get(question)?;
        (Instant::now() < *until).then_some(*verdict)
    }

    fn remember(&self, question: Question, verdict: Verdict) {
        let now = Instant::now();
        let lasting = if verdict == Verdict::Allowed { YES } else { NO };
        let mut known = self.known.lock();
        if known.len() >= KEPT {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= KEPT {
            // Somebody tries tokens: those who may are worth more than those who may not.
            known.retain(|_, (verdict, _)| *verdict == Verdict::Allowed);
        }
        if known.len() < KEPT {
            known.insert(question, (verdict, now + lasting));
        }
    }

    async fn find_out(&self, question: &Question) -> Result<Verdict, Error> {
        let Some(user) = self.owner(&question.token).await? else {
            return Ok(Verdict::Unknown);
        };
        let spec = SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(question.path.to_owned()),
                verb: Some(question.verb.to_owned()),
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
            "asking whether user {:?} may {} {}",
            user.username.unwrap_or_default(),
            question.verb,
            question.path
        )))?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Verdict::Allowed
        } else {
            Verdict::Forbidden
        })
    }

    /// Whose token it is.
    async fn owner(&self, token: &str) -> Result<Option<UserInfo>, Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(Error::api("asking whose token it is"))?;
        let status = answer.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }
}

/// The token that a request comes with.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let said = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = said.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}
