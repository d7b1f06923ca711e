//! One request to one endpoint: scheme, authentication, pauses, retries.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::time::{Instant, sleep};
use url::Url;
use url::form_urlencoded::Serializer;

use super::refusal::refusal;
use super::{Candidate, Inner};
use crate::auth::{self, Demand, Grant, Token};
use crate::credentials::Credential;
use crate::error::{Cause, Operation};
use crate::mirrors::{Endpoint, Security};
use crate::secret::Secret;
use crate::transport::{Answer, Call, Transport, sensitive};
use crate::trust::Tls;

/// Upper bound of a token server's response.
const MAX_TOKEN_BYTES: u64 = 256 * 1024;

/// A request below a repository.
pub(super) struct RegistryRequest {
    pub(super) operation: Operation,
    pub(super) method: Method,
    /// The path after the repository: `manifests/x`.
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// The context shared by a request and the token requests for it.
struct RequestContext<'a> {
    candidate: &'a Candidate,
    /// The URL of the endpoint without a path.
    root: Url,
    verify: bool,
    tls: Tls,
}

impl RequestContext<'_> {
    /// The key under which the endpoint's challenge is cached.
    fn known_as(&self) -> String {
        format!("{}://{}", self.root.scheme(), self.candidate.place.host)
    }
}

impl Inner {
    /// Retries transient failures, as often as configured for the endpoint.
    pub(super) async fn retry_at_endpoint<'a, T>(
        &self,
        place: &Endpoint,
        attempt: impl FnMut() -> BoxFuture<'a, Result<T, Cause>>,
    ) -> Result<T, Cause> {
        let retry = &self.settings.retry;
        let most = if place.is_mirror {
            retry.mirror_attempts
        } else {
            retry.attempts
        };
        self.retry_up_to(&place.host, most, attempt).await
    }

    /// Retries transient failures this often.
    pub(super) async fn retry_up_to<'a, T>(
        &self,
        host: &str,
        most: u32,
        mut attempt: impl FnMut() -> BoxFuture<'a, Result<T, Cause>>,
    ) -> Result<T, Cause> {
        let retry = &self.settings.retry;
        let mut failures = 0;
        loop {
            let cause = match attempt().await {
                Ok(value) => return Ok(value),
                Err(cause) => cause,
            };
            failures += 1;
            if !cause.is_transient() || failures >= most {
                return Err(cause);
            }
            let wait = match cause {
                Cause::RateLimited {
                    retry_after: Some(wait),
                } if wait > retry.patience => {
                    return Err(cause);
                }
                Cause::RateLimited {
                    retry_after: Some(wait),
                } => wait.max(retry.wait(1)),
                _ => retry.wait(failures),
            };
            tracing::debug!(host, %cause, ?wait, "retrying");
            sleep(wait).await;
        }
    }

    /// Sends one request. The response is a success or `304`; any other status is an error.
    pub(super) async fn send(
        &self,
        candidate: &Candidate,
        request: &RegistryRequest,
    ) -> Result<Answer, Cause> {
        // By credential as well: rate limits are counted for each account, and the anonymous limit of one tenant must
        // not stop those who log in.
        let pause = (candidate.place.host.clone(), candidate.key.credential);
        if let Some(until) = self.pauses.get(&pause) {
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Err(Cause::RateLimited {
                    retry_after: Some(left),
                });
            }
        }
        let result = self.send_securely(candidate, request).await;
        if let Err(Cause::RateLimited {
            retry_after: Some(wait),
        }) = &result
        {
            self.pauses.insert(pause, Instant::now() + *wait);
        }
        result
    }

    /// Falls back to plain HTTP where TLS may be missing.
    async fn send_securely(
        &self,
        candidate: &Candidate,
        request: &RegistryRequest,
    ) -> Result<Answer, Cause> {
        let place = &candidate.place;
        match place.security {
            Security::Verified => self.send_over(candidate, request, "https", true).await,
            Security::Unverified => self.send_over(candidate, request, "https", false).await,
            Security::Plain => self.send_over(candidate, request, "http", true).await,
            Security::Insecure if self.without_tls.contains_key(&place.host) => {
                self.send_over(candidate, request, "http", true).await
            }
            Security::Insecure => match self.send_over(candidate, request, "https", false).await {
                // Only where the administrator allowed it (`Security::Insecure`). An HTTP error is an answer over
                // TLS, and no reason to send the request again in plain text.
                Err(cause @ (Cause::Unreachable(_) | Cause::Timeout { .. })) => {
                    let answer = self.send_over(candidate, request, "http", true).await;
                    match answer {
                        // The TLS error of the two: it is the one the administrator has to solve.
                        Err(Cause::Unreachable(_) | Cause::Timeout { .. }) => Err(cause),
                        answer => {
                            self.without_tls.insert(place.host.clone(), ());
                            answer
                        }
                    }
                }
                answer => answer,
            },
        }
    }

    async fn send_over(
        &self,
        candidate: &Candidate,
        request: &RegistryRequest,
        scheme: &str,
        verify: bool,
    ) -> Result<Answer, Cause> {
        let place = &candidate.place;
        let credential = candidate.credential.as_deref();
        let root = Url::parse(&format!("{scheme}://{}/", place.host))
            .map_err(|_| Cause::Invalid(format!("{:?} is no host", place.host)))?;
        let mut url = root.clone();
        url.set_path(&format!(
            "{}/{}/{}",
            place.base, place.repository, request.path
        ));
        if let Some(namespace) = &place.namespace {
            url.query_pairs_mut().append_pair("ns", namespace);
        }
        let tls = self.transport.tls(&place.host).and(place.tls.as_deref());
        let context = RequestContext {
            candidate,
            root,
            verify,
            tls,
        };
        let mut shown = self.preemptive_authorization(&context).await?;
        let mut answered = false;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, self.agent()?);
            for (name, value) in place.headers.iter().chain(&request.headers) {
                headers.append(name.clone(), value.clone());
            }
            if let Some(shown) = &shown {
                headers.insert(AUTHORIZATION, sensitive(shown.expose())?);
            }
            let answer = self
                .transport
                .send(&Call {
                    operation: request.operation,
                    method: request.method.clone(),
                    url: url.clone(),
                    headers,
                    body: Bytes::new(),
                    tls: &context.tls,
                    verify,
                    check: &|_| Ok(()),
                })
                .await?;
            let status = answer.parts.status;
            if status.is_success() || status == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            // Only the registry itself may send a challenge, and only once.
            // Blob storage behind a redirect may answer 401 with a realm of its own; a token request there would send
            // the registry's credentials to a host that the registry merely pointed to.
            let is_challenge = status == StatusCode::UNAUTHORIZED
                && !answered
                && auth::origin(&answer.url) == auth::origin(&context.root);
            let demand = is_challenge
                .then(|| {
                    let values = answer.parts.headers.get_all(WWW_AUTHENTICATE);
                    Demand::read(values.iter().filter_map(|value| value.to_str().ok()))
                })
                .flatten();
            let Some(demand) = demand else {
                let sent = shown.as_ref().map(Secret::expose);
                return Err(refusal(answer, credential, sent).await);
            };
            answered = true;
            let prefix = scope_prefix(&demand, &place.repository);
            self.demands
                .insert(context.known_as(), (demand.clone(), prefix.clone()));
            // The authorization sent before was rejected: do not send it again.
            let old = shown.take();
            let new = self
                .authorization_for(&context, &demand, &prefix, old.is_some())
                .await?;
            // The same token again cannot succeed; another round would be the loop that `answered` exists to prevent.
            if new.is_none() || new == old {
                return Err(refusal(answer, credential, old.as_ref().map(Secret::expose)).await);
            }
            shown = new;
        }
    }

    pub(super) fn agent(&self) -> Result<HeaderValue, Cause> {
        HeaderValue::from_str(&self.settings.user_agent)
            .map_err(|_| Cause::Invalid("the user agent is not a valid header value".to_owned()))
    }

    /// The preemptive authorization: what the host's last challenge demanded.
    async fn preemptive_authorization(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Option<Secret>, Cause> {
        if let Some(Credential::Bearer(token)) = context.candidate.credential.as_deref() {
            return Ok(Some(Secret::new(format!("Bearer {}", token.expose()))));
        }
        match self.demands.get(&context.known_as()) {
            Some((demand, prefix)) => {
                self.authorization_for(context, &demand, &prefix, false)
                    .await
            }
            None => Ok(None),
        }
    }

    /// The authorization for a challenge; `None` without suitable credentials. `renew` means that the
    /// cached token was rejected.
    async fn authorization_for(
        &self,
        context: &RequestContext<'_>,
        demand: &Demand,
        prefix: &str,
        renew: bool,
    ) -> Result<Option<Secret>, Cause> {
        let RequestContext {
            candidate, root, ..
        } = context;
        let credential = candidate.credential.as_deref();
        let Demand::Bearer { realm, service, .. } = demand else {
            return Ok(credential.and_then(Credential::basic));
        };
        let trusted = &self.settings.trusted_realms;
        let realm = auth::check(realm, root, credential.is_some(), trusted)?;
        let grant = Grant {
            realm: realm.to_string(),
            service: service.clone(),
            // Our own scope, not the one in the challenge: a registry could ask for `push` or for another repository,
            // and the token server would grant what the credential permits.
            scope: format!("repository:{prefix}{}:pull", candidate.place.repository),
            credential: candidate.key.credential,
        };
        if renew {
            self.tokens.remove(&grant);
        }
        let bearer = |token: &Token| Some(Secret::new(format!("Bearer {}", token.value.expose())));
        if let Some(token) = self.tokens.get(&grant)
            && token.is_valid(Instant::now())
        {
            return Ok(bearer(&token));
        }
        let exchange = Exchange {
            transport: Arc::clone(&self.transport),
            // The endpoint's own CA certificates apply to the endpoint alone.
            // `insecure` was configured for the registry. A token server on another host receives the password, so
            // its certificate is always verified.
            verify: context.verify || auth::origin(&realm) != auth::origin(root),
            tls: if auth::origin(&realm) == auth::origin(root) {
                context.tls.clone()
            } else {
                self.transport.tls(&auth::origin(&realm))
            },
            agent: self.agent()?,
            grant: grant.clone(),
            realm,
            root: root.clone(),
            credential: candidate.credential.clone(),
            trusted: trusted.clone(),
        };
        let token = self
            .granting
            .join(grant.clone(), || {
                async move { exchange.run().await }.boxed()
            })
            .await?;
        self.tokens.insert(grant.clone(), token.clone());
        Ok(bearer(&token))
    }
}

/// The prefix before the repository in a registry's scopes: mirrors that keep images of others under a
/// path have it there. No other scope is requested.
fn scope_prefix(demand: &Demand, repository: &str) -> String {
    let Demand::Bearer {
        scope: Some(scope), ..
    } = demand
    else {
        return String::new();
    };
    scope
        .strip_prefix("repository:")
        .and_then(|rest| rest.rsplit_once(':'))
        .and_then(|(name, _)| name.strip_suffix(repository))
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('/'))
        .filter(|prefix| {
            prefix
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
        })
        .unwrap_or_default()
        .to_owned()
}

/// A request to a token server.
struct Exchange {
    transport: Arc<Transport>,
    verify: bool,
    tls: Tls,
    agent: HeaderValue,
    grant: Grant,
    realm: Url,
    root: Url,
    credential: Option<Arc<Credential>>,
    trusted: Vec<String>,
}

impl Exchange {
    async fn run(&self) -> Result<Token, Cause> {
        if let Some(Credential::Identity { username, token }) = self.credential.as_deref() {
            match self.by_form(token).await {
                // Servers without the OAuth form support the query.
                Err(Cause::NotFound { .. } | Cause::Server { code: 405, .. }) => {
                    return self
                        .by_query(
                            Credential::Password {
                                username: username.clone(),
                                password: token.clone(),
                            }
                            .basic(),
                        )
                        .await;
                }
                result => return result,
            }
        }
        self.by_query(self.credential.as_deref().and_then(Credential::basic))
            .await
    }

    /// `GET realm?service=..&scope=..`, with username and password if there are any.
    async fn by_query(&self, authorization: Option<Secret>) -> Result<Token, Cause> {
        let mut url = self.realm.clone();
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = &self.grant.service {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &self.grant.scope);
        }
        let mut headers = HeaderMap::new();
        if let Some(authorization) = &authorization {
            headers.insert(AUTHORIZATION, sensitive(authorization.expose())?);
        }
        let sent = authorization.as_ref().map(Secret::expose);
        self.send(Method::GET, url, headers, Bytes::new(), sent)
            .await
    }

    /// `POST realm`, which exchanges a refresh token.
    async fn by_form(&self, token: &Secret) -> Result<Token, Cause> {
        let mut fields = vec![("grant_type", "refresh_token"), ("client_id", "medley")];
        fields.extend(
            self.grant
                .service
                .as_deref()
                .map(|service| ("service", service)),
        );
        fields.push(("scope", &self.grant.scope));
        fields.push(("refresh_token", token.expose()));
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        let url = self.realm.clone();
        self.send(Method::POST, url, headers, Bytes::from(form), None)
            .await
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        mut headers: HeaderMap,
        body: Bytes,
        sent: Option<&str>,
    ) -> Result<Token, Cause> {
        headers.insert(USER_AGENT, self.agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let requested_at = Instant::now();
        let check = |next: &Url| {
            // Redirects do not carry credentials, but the token comes back through them.
            auth::check(
                next.as_str(),
                &self.root,
                self.credential.is_some(),
                &self.trusted,
            )
            .map(|_| ())
        };
        let call = Call {
            operation: Operation::Token,
            method,
            url,
            headers,
            body,
            tls: &self.tls,
            verify: self.verify,
            check: &check,
        };
        let answer = self.transport.send(&call).await?;
        if !answer.parts.status.is_success() {
            return Err(refusal(answer, self.credential.as_deref(), sent).await);
        }
        let bytes = answer.read(MAX_TOKEN_BYTES).await?;
        Token::read(&bytes, requested_at).map_err(|why| {
            let server = auth::origin(&self.realm);
            Cause::Invalid(format!("the answer of the token server {server}: {why}"))
        })
    }
}
