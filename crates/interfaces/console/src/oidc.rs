//! Sign-in at an identity provider: OpenID Connect, or the OAuth server of OpenShift.
//!
//! ```text
//! /sign-in/provider --state, nonce, PKCE challenge--> provider --code, state--> /sign-in/callback
//!   `-- state, nonce and PKCE verifier, encrypted in a cookie of this browser ------^
//! code --token endpoint--> ID token --signature, issuer, audience, nonce--> bearer token of the session
//! ```
//!
//! The API server decides who the user is and what they may do: it has to accept tokens of the same
//! provider for the same client. The console verifies them nevertheless, so that a token of another
//! client or of another sign-in never begins a session here.

mod jwt;
mod web;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use crate::secret;
use crate::session::{Session, Tokens};
use jwt::{Expected, KeySet, TokenError};
use web::Web;

/// Where the provider sends the browser back to.
pub(crate) const CALLBACK: &str = "/sign-in/callback";
/// How long a sign-in may take.
pub(crate) const SIGN_IN_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// Remaining lifetime at which a token is renewed.
const RENEWAL_MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// How long documents of the provider are cached.
const CACHE_LIFETIME: Duration = Duration::from_hours(1);
/// Minimum interval between two reads of its keys, for tokens that name an unknown key.
const KEYS_INTERVAL: Duration = Duration::from_secs(10);
/// Path of the discovery document below the issuer.
const DISCOVERY: &str = ".well-known/openid-configuration";
/// Path of the document of OpenShift's OAuth server, on the API server.
const OPENSHIFT_DISCOVERY: &str = "/.well-known/oauth-authorization-server";

/// An identity provider.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Who issues tokens.
    pub issuer: Issuer,
    /// The name of the console at the provider.
    pub client_id: String,
    /// A file with the secret of the console at the provider; it is read for every use. Public
    /// clients have none.
    pub client_secret: Option<PathBuf>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// A file with the CA certificates of the provider, in PEM, instead of the system's.
    pub authority: Option<PathBuf>,
}

/// Who issues tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Issuer {
    /// An OpenID Connect provider: its ID token is the bearer token for the API server.
    Oidc(String),
    /// The OAuth server that the API server of an OpenShift cluster names: its access token is.
    Openshift,
}

/// Why an identity provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The issuer is not a URL.
    #[error(
        "the issuer {0:?} is not accepted: expected https://HOST[/PATH] without query and fragment; \
         http only for loopback addresses"
    )]
    Issuer(String),
    /// An empty name.
    #[error("the client ID of the identity provider is empty")]
    ClientId,
}

/// Why a sign-in or a renewal failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInError {
    /// The provider cannot be reached, or is configured wrongly. The same tokens may work later.
    #[error("The identity provider cannot be used: {0}")]
    Unavailable(String),
    /// The provider refuses the code or the refresh token.
    #[error("The identity provider refuses the sign-in: {0}")]
    Refused(String),
    /// The token is wrong.
    #[error("The token of the identity provider is not accepted: {0}")]
    Token(#[from] TokenError),
}

/// A sign-in that has begun: the content of a cookie.
#[derive(Serialize, Deserialize)]
pub(crate) struct SignInState {
    pub(crate) state: String,
    nonce: String,
    verifier: String,
    redirect: String,
    /// The page to go to afterwards.
    pub(crate) next: String,
    /// Seconds since 1970.
    began: i64,
}

impl SignInState {
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        Timestamp::from_second(self.began)
            .is_ok_and(|began| now.duration_since(began) > SIGN_IN_TIMEOUT)
    }
}

/// What a provider says about itself.
#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    #[serde(default)]
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    /// Whether its answers name it in `iss`.
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<u32>,
}

#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
}

/// A cached document.
type Cached<T> = Mutex<Option<(Instant, Arc<T>)>>;

/// An identity provider in use.
pub(crate) struct Provider {
    settings: ProviderSettings,
    cluster: Config,
    web: Web,
    metadata: Cached<Metadata>,
    keys: Cached<KeySet>,
}

impl ProviderSettings {
    /// Checks that they can be used.
    pub fn validate(&self) -> Result<(), ProviderError> {
        if self.client_id.is_empty() {
            return Err(ProviderError::ClientId);
        }
        match &self.issuer {
            Issuer::Oidc(issuer) => endpoint(issuer)
                .filter(|url| url.query().is_none())
                .map(|_| ())
                .ok_or_else(|| ProviderError::Issuer(issuer.clone())),
            Issuer::Openshift => Ok(()),
        }
    }
}

impl Provider {
    /// A provider. `cluster` has no credentials.
    pub(crate) fn new(settings: ProviderSettings, cluster: Config) -> Self {
        Self {
            web: Web::new(settings.authority.clone()),
            settings,
            cluster,
            metadata: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// Its name on the sign-in page.
    pub(crate) fn name(&self) -> String {
        match &self.settings.issuer {
            Issuer::Openshift => "OpenShift".to_owned(),
            Issuer::Oidc(issuer) => {
                let host = Url::parse(issuer).ok();
                let host = host.and_then(|url| url.host_str().map(str::to_owned));
                host.unwrap_or_else(|| issuer.clone())
            }
        }
    }

    /// Begins a sign-in: what the browser keeps, and where it goes. `origin` is that of the console in
    /// the browser.
    pub(crate) async fn begin(
        &self,
        origin: &str,
        next: &str,
        now: Timestamp,
    ) -> Result<(SignInState, String), SignInError> {
        let metadata = self.metadata().await?;
        let state = SignInState {
            state: secret::random(),
            nonce: secret::random(),
            verifier: secret::random(),
            redirect: format!("{origin}{CALLBACK}"),
            next: next.to_owned(),
            began: now.as_second(),
        };
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(state.verifier.as_bytes()));
        let mut url = checked(&metadata.authorization_endpoint)?;
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &state.redirect)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &state.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if self.is_oidc() {
            query.append_pair("nonce", &state.nonce);
        }
        drop(query);
        Ok((state, url.into()))
    }

    /// Exchanges the code of an answer. `issuer` is the one that the answer names, if any.
    pub(crate) async fn finish(
        &self,
        state: &SignInState,
        code: &str,
        issuer: Option<&str>,
        now: Timestamp,
    ) -> Result<Tokens, SignInError> {
        let metadata = self.metadata().await?;
        // An answer of another provider would have its code sent to this one (RFC 9207).
        let is_own = match issuer {
            Some(issuer) => issuer == metadata.issuer,
            None => !metadata.authorization_response_iss_parameter_supported,
        };
        if !is_own {
            return Err(SignInError::Refused(format!(
                "the answer is not one of {}",
                metadata.issuer
            )));
        }
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &state.redirect),
            ("code_verifier", &state.verifier),
        ];
        let answer = self.request_tokens(&metadata, &fields).await?;
        self.read(&metadata, answer, Some(&state.nonce), now).await
    }

    /// Whether the tokens of a session should be renewed.
    #[expect(clippy::unused_self, reason = "without a provider nothing is renewed")]
    pub(crate) fn is_due(&self, session: &Session, now: Timestamp) -> bool {
        let tokens = session.tokens().filter(|tokens| tokens.refresh.is_some());
        tokens.is_some_and(|tokens| tokens.expires.duration_since(now) < RENEWAL_MARGIN)
    }

    /// Renews tokens.
    pub(crate) async fn renew(
        &self,
        tokens: &Tokens,
        now: Timestamp,
    ) -> Result<Tokens, SignInError> {
        let refresh = tokens.refresh.as_deref().unwrap_or_default();
        let metadata = self.metadata().await?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let answer = self.request_tokens(&metadata, &fields).await?;
        let mut renewed = self.read(&metadata, answer, None, now).await?;
        if renewed.subject != tokens.subject {
            return Err(SignInError::Refused(
                "the renewed token is of another user".to_owned(),
            ));
        }
        // Providers that do not rotate refresh tokens leave them out.
        if renewed.refresh.is_none() {
            renewed.refresh.clone_from(&tokens.refresh);
        }
        Ok(renewed)
    }

    fn is_oidc(&self) -> bool {
        matches!(self.settings.issuer, Issuer::Oidc(_))
    }

    /// The tokens of an answer, verified.
    async fn read(
        &self,
        metadata: &Metadata,
        answer: TokenResponse,
        nonce: Option<&str>,
        now: Timestamp,
    ) -> Result<Tokens, SignInError> {
        let lacks = |what: &str| SignInError::Refused(format!("its answer has no {what}"));
        if !self.is_oidc() {
            let seconds = answer.expires_in.unwrap_or(24 * 60 * 60);
            let lifetime = SignedDuration::from_secs(seconds.into());
            return Ok(Tokens {
                bearer: answer.access_token.ok_or_else(|| lacks("access token"))?,
                refresh: None,
                subject: None,
                expires: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            });
        }
        let token = answer
            .id_token
            .ok_or_else(|| lacks("ID token; the scope openid requests it"))?;
        let expected = Expected {
            issuer: &metadata.issuer,
            client: &self.settings.client_id,
            nonce,
        };
        let keys = self.keys(metadata, CACHE_LIFETIME).await?;
        let verified = match jwt::verify(&token, &keys, expected, now) {
            // Providers rotate their keys; the new one is in the document by then.
            Err(TokenError::UnknownKey(_)) => {
                let keys = self.keys(metadata, KEYS_INTERVAL).await?;
                jwt::verify(&token, &keys, expected, now)?
            }
            verified => verified?,
        };
        Ok(Tokens {
            bearer: token,
            refresh: answer.refresh_token,
            subject: Some(verified.subject),
            expires: verified.expires,
        })
    }

    async fn metadata(&self) -> Result<Arc<Metadata>, SignInError> {
        let mut cached = self.metadata.lock().await;
        if let Some((read, metadata)) = &*cached
            && read.elapsed() < CACHE_LIFETIME
        {
            return Ok(Arc::clone(metadata));
        }
        self.web.reset().await;
        let metadata = match &self.settings.issuer {
            Issuer::Oidc(issuer) => {
                let url = checked(&format!("{}/{DISCOVERY}", issuer.trim_end_matches('/')))?;
                let metadata: Metadata = self.get(&url).await?;
                // Otherwise another issuer's document could take the place of the configured one's.
                if metadata.issuer != *issuer {
                    return Err(SignInError::Unavailable(format!(
                        "{url} is the document of the issuer {:?}; expected {issuer:?}",
                        metadata.issuer
                    )));
                }
                checked(&metadata.jwks_uri)?;
                metadata
            }
            Issuer::Openshift => {
                let unusable = |why: String| SignInError::Unavailable(why);
                let client = self.anonymous().map_err(unusable)?;
                let request = request(Method::GET, OPENSHIFT_DISCOVERY);
                let request = request.body(Vec::new()).map_err(|error| invalid(&error))?;
                let answer = web::send(client, request).await;
                let answer = answer.map_err(|why| unusable(format!("the API server {why}")))?;
                decode(OPENSHIFT_DISCOVERY, answer)?
            }
        };
        checked(&metadata.authorization_endpoint)?;
        checked(&metadata.token_endpoint)?;
        let metadata = Arc::new(metadata);
        *cached = Some((Instant::now(), Arc::clone(&metadata)));
        Ok(metadata)
    }

    /// A client of the API server without credentials.
    fn anonymous(&self) -> Result<Client, String> {
        let builder = runtime::client::builder(self.cluster.clone());
        Ok(builder.map_err(|error| error.to_string())?.build())
    }

    async fn keys(
        &self,
        metadata: &Metadata,
        lifetime: Duration,
    ) -> Result<Arc<KeySet>, SignInError> {
        let mut cached = self.keys.lock().await;
        if let Some((read, keys)) = &*cached
            && read.elapsed() < lifetime
        {
            return Ok(Arc::clone(keys));
        }
        let url = checked(&metadata.jwks_uri)?;
        let answer = self.fetch(&url).await?;
        let json = succeeded(url.as_str(), answer)?;
        let keys = KeySet::parse(&json).map_err(|error| {
            SignInError::Unavailable(format!("{url} is not a JSON Web Key Set: {error}"))
        })?;
        let keys = Arc::new(keys);
        *cached = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }

    async fn fetch(&self, url: &Url) -> Result<(StatusCode, Vec<u8>), SignInError> {
        let request = request(Method::GET, url.as_str());
        let request = request.body(Vec::new()).map_err(|error| invalid(&error))?;
        self.web
            .send(request)
            .await
            .map_err(SignInError::Unavailable)
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, url: &Url) -> Result<T, SignInError> {
        decode(url.as_str(), self.fetch(url).await?)
    }

    async fn request_tokens(
        &self,
        metadata: &Metadata,
        fields: &[(&str, &str)],
    ) -> Result<TokenResponse, SignInError> {
        let url = &metadata.token_endpoint;
        let answer = self.web.send(self.token_request(metadata, fields)?).await;
        let (status, body) = answer.map_err(SignInError::Unavailable)?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| {
                // The error of the decoder may quote the token.
                SignInError::Unavailable(format!("{url} did not answer with tokens"))
            });
        }
        match serde_json::from_slice::<ErrorResponse>(&body) {
            Ok(refusal) if status.is_client_error() => {
                let description = refusal.error_description.unwrap_or_default();
                Err(SignInError::Refused(readable(&refusal.error, &description)))
            }
            _ => Err(SignInError::Unavailable(format!("{url} answered {status}"))),
        }
    }

    /// A request to the token endpoint, authenticated as the console.
    fn token_request(
        &self,
        metadata: &Metadata,
        fields: &[(&str, &str)],
    ) -> Result<Request<Vec<u8>>, SignInError> {
        let url = checked(&metadata.token_endpoint)?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let mut request = request(Method::POST, url.as_str())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let id = &self.settings.client_id;
        match self.client_secret()? {
            None => {
                form.append_pair("client_id", id);
            }
            Some(secret) if in_body(&metadata.token_endpoint_auth_methods_supported) => {
                form.append_pair("client_id", id);
                form.append_pair("client_secret", &secret);
            }
            Some(secret) => {
                let encode = |text: &str| -> String {
                    form_urlencoded::byte_serialize(text.as_bytes()).collect()
                };
                let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(&secret)));
                request = request.header(AUTHORIZATION, format!("Basic {pair}"));
            }
        }
        request
            .body(form.finish().into_bytes())
            .map_err(|error| invalid(&error))
    }

    fn client_secret(&self) -> Result<Option<String>, SignInError> {
        let Some(path) = &self.settings.client_secret else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            SignInError::Unavailable(format!(
                "the client secret {} cannot be read: {error}",
                path.display()
            ))
        })?;
        // An empty file is that of a public client.
        let secret = text.trim();
        Ok((!secret.is_empty()).then(|| secret.to_owned()))
    }
}

/// Whether the client secret belongs into the body: only if the provider cannot read the header, which
/// every other one can.
fn in_body(methods: &[String]) -> bool {
    let has = |name: &str| methods.iter().any(|method| method == name);
    has("client_secret_post") && !has("client_secret_basic")
}

/// An error of a provider for people, without line breaks and of limited length.
pub(crate) fn readable(error: &str, description: &str) -> String {
    let text = if description.is_empty() {
        error.to_owned()
    } else {
        format!("{error}: {description}")
    };
    let text = text.chars().filter(|c| !c.is_control());
    text.take(300).collect()
}

fn request(method: Method, url: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(url)
        .header(ACCEPT, "application/json")
}

fn invalid(error: &http::Error) -> SignInError {
    SignInError::Unavailable(error.to_string())
}

fn succeeded(url: &str, (status, body): (StatusCode, Vec<u8>)) -> Result<Vec<u8>, SignInError> {
    if status.is_success() {
        return Ok(body);
    }
    Err(SignInError::Unavailable(format!("{url} answered {status}")))
}

fn decode<T: serde::de::DeserializeOwned>(
    url: &str,
    answer: (StatusCode, Vec<u8>),
) -> Result<T, SignInError> {
    let body = succeeded(url, answer)?;
    serde_json::from_slice(&body).map_err(|error| {
        SignInError::Unavailable(format!("{url} is not the document of a provider: {error}"))
    })
}

/// A URL of a provider.
fn checked(text: &str) -> Result<Url, SignInError> {
    endpoint(text).ok_or_else(|| {
        SignInError::Unavailable(format!(
            "the URL {text:?} is not accepted: expected https; http only for loopback addresses"
        ))
    })
}

/// A URL that tokens may be sent to: with TLS, or within this machine.
fn endpoint(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_loopback = match url.host()? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(address) => IpAddr::V4(address).is_loopback(),
        url::Host::Ipv6(address) => IpAddr::V6(address).is_loopback(),
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
    let is_plain =
        url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    (is_safe && is_plain).then_some(url)
}

#[cfg(test)]
mod tests;
