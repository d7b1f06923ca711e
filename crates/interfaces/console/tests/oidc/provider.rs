//! A stand-in of an OpenID Connect provider, written from the specifications (OpenID Connect Core and
//! Discovery, RFC 6749, RFC 7636), and of an API server that is configured with it: `--oidc-issuer-url`
//! is no flag of the embedded one. It also names the stand-in as its OAuth server, as API servers of
//! OpenShift do.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use console::{Issuer, ProviderSettings};
use http::header::{AUTHORIZATION, HOST, LOCATION};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full};
use jiff::Timestamp;
use kube::client::Body;
use kube::{Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};
use serving::Incoming;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::form_urlencoded;

pub(crate) const CLIENT_ID: &str = "medley console";
const CLIENT_SECRET: &str = "a:secret&more";
const LIMITS: serving::Limits = serving::Limits {
    clients: 100,
    per_address: 100,
    streams: None,
    drain: Duration::ZERO,
};

#[derive(Default)]
struct Issued {
    /// Challenge, nonce and redirect URI by code.
    codes: HashMap<String, (String, String, String)>,
    refresh: Option<String>,
    latest: String,
    /// The access token that was issued last.
    access: String,
    /// Whether the API server accepts tokens.
    is_unknown: bool,
    number: u32,
}

struct State {
    url: String,
    key: Mutex<EcdsaKeyPair>,
    published: Mutex<Value>,
    lifetime: AtomicI64,
    claims: Mutex<Value>,
    issued: Mutex<Issued>,
}

/// The provider; it stops when this is dropped.
pub(crate) struct Provider {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    secret: std::path::PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.secret);
    }
}

fn key() -> anyhow::Result<EcdsaKeyPair> {
    Ok(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?)
}

fn jwks(key: &EcdsaKeyPair, name: u32) -> Value {
    let point = key.public_key().as_ref();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    json!({ "keys": [{
        "kty": "EC", "kid": name.to_string(), "use": "sig", "alg": "ES256", "crv": "P-256",
        "x": encode(&point[1..33]), "y": encode(&point[33..]),
    }] })
}

impl Provider {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(None).await
    }

    /// A provider with TLS; its certificate is for `localhost`.
    pub(crate) async fn start_with(tls: Option<serving::Tls>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let url = match &tls {
            Some(_) => format!("https://localhost:{}", address.port()),
            None => format!("http://{address}"),
        };
        let key = key()?;
        let state = Arc::new(State {
            url: url.clone(),
            published: Mutex::new(jwks(&key, 0)),
            key: Mutex::new(key),
            lifetime: AtomicI64::new(3600),
            claims: Mutex::default(),
            issued: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let answer = move |request| answer(Arc::clone(&shared), request);
        let serving = serving::serve(listener, tls, LIMITS, answer, std::future::pending());
        let secret = std::env::temp_dir().join(format!("console-secret-{}", address.port()));
        std::fs::write(&secret, format!("{CLIENT_SECRET}\n"))?;
        Ok(Self {
            url,
            address,
            state,
            secret,
            task: tokio::spawn(serving),
        })
    }

    pub(crate) fn settings(&self) -> ProviderSettings {
        ProviderSettings {
            issuer: Issuer::Oidc(self.url.clone()),
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(self.secret.clone()),
            scopes: vec!["openid".to_owned(), "offline_access".to_owned()],
            authority: None,
        }
    }

    /// The ID token that was issued last.
    pub(crate) fn latest(&self) -> String {
        self.state.issued.lock().latest.clone()
    }

    /// The lifetime of tokens, in seconds.
    pub(crate) fn set_lifetime(&self, seconds: i64) {
        self.state.lifetime.store(seconds, Ordering::Relaxed);
    }

    /// Claims of all tokens, in place of the right ones.
    pub(crate) fn set_claims(&self, claims: Value) {
        *self.state.claims.lock() = claims;
    }

    pub(crate) fn refuse_refresh(&self) {
        self.state.issued.lock().refresh = None;
    }

    /// The API server accepts no token any more.
    pub(crate) fn forget_tokens(&self) {
        self.state.issued.lock().is_unknown = true;
    }

    /// Signs with another key from now on.
    pub(crate) fn rotate_key(&self, publish: bool) -> anyhow::Result<()> {
        let key = key()?;
        if publish {
            *self.state.published.lock() = jwks(&key, 0);
        }
        *self.state.key.lock() = key;
        Ok(())
    }
}

fn plain(code: StatusCode, body: impl Into<String>) -> Response<Full<bytes::Bytes>> {
    let mut response = Response::new(Full::from(body.into()));
    *response.status_mut() = code;
    response
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Response<Full<bytes::Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes);
    let body = body.unwrap_or_default();
    let pairs = |text: &[u8]| -> HashMap<String, String> {
        form_urlencoded::parse(text).into_owned().collect()
    };
    let query = pairs(parts.uri.query().unwrap_or_default().as_bytes());
    let url = &state.url;
    match parts.uri.path() {
        "/.well-known/openid-configuration" | "//.well-known/openid-configuration" => {
            let document = json!({
                "issuer": url,
                "authorization_endpoint": format!("{url}/authorize?prompt=login"),
                "token_endpoint": format!("{url}/token"),
                "jwks_uri": format!("{url}/jwks"),
            });
            plain(StatusCode::OK, document.to_string())
        }
        "/jwks" => plain(StatusCode::OK, state.published.lock().to_string()),
        "/authorize" => authorize(&state, &query),
        "/token" => {
            let given = parts
                .headers
                .get(AUTHORIZATION)
                .and_then(|it| it.to_str().ok());
            let pair = STANDARD.encode("medley+console:a%3Asecret%26more");
            if given != Some(&format!("Basic {pair}")) {
                return plain(StatusCode::UNAUTHORIZED, r#"{"error":"invalid_client"}"#);
            }
            match tokens(&state, &pairs(&body)) {
                Some(tokens) => plain(StatusCode::OK, tokens.to_string()),
                None => plain(StatusCode::BAD_REQUEST, r#"{"error":"invalid_grant"}"#),
            }
        }
        _ => plain(StatusCode::NOT_FOUND, ""),
    }
}

/// The user approves at once.
fn authorize(state: &State, query: &HashMap<String, String>) -> Response<Full<bytes::Bytes>> {
    let field = |name: &str| query.get(name).cloned().unwrap_or_default();
    let is_valid = field("response_type") == "code"
        && field("client_id") == CLIENT_ID
        && field("prompt") == "login"
        && matches!(
            field("scope").as_str(),
            "openid offline_access" | "user:full"
        )
        && field("code_challenge_method") == "S256"
        && field("redirect_uri").ends_with("/sign-in/callback");
    if !is_valid {
        return plain(StatusCode::BAD_REQUEST, format!("{query:?}"));
    }
    let mut issued = state.issued.lock();
    issued.number += 1;
    let code = format!("code-{}", issued.number);
    let kept = (
        field("code_challenge"),
        field("nonce"),
        field("redirect_uri"),
    );
    issued.codes.insert(code.clone(), kept);
    let mut response = plain(StatusCode::FOUND, "");
    let location = format!(
        "{}?code={code}&state={}",
        field("redirect_uri"),
        field("state")
    );
    if let Ok(location) = location.parse() {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn tokens(state: &State, form: &HashMap<String, String>) -> Option<Value> {
    let mut issued = state.issued.lock();
    let nonce = match form.get("grant_type")?.as_str() {
        "authorization_code" => {
            // A code is used once.
            let (challenge, nonce, redirect) = issued.codes.remove(form.get("code")?)?;
            let verifier = form.get("code_verifier")?;
            let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
            (digest == challenge && *form.get("redirect_uri")? == redirect).then_some(nonce)
        }
        "refresh_token" => {
            // As is a refresh token.
            let refresh = issued.refresh.take()?;
            (*form.get("refresh_token")? == refresh).then(String::new)
        }
        _ => None,
    }?;
    issued.number += 1;
    let now = Timestamp::now().as_second();
    let mut claims = json!({
        "iss": state.url, "sub": "oscar", "aud": CLIENT_ID, "iat": now,
        "exp": now + state.lifetime.load(Ordering::Relaxed), "jti": issued.number,
    });
    if !nonce.is_empty() {
        claims["nonce"] = nonce.into();
    }
    for (name, value) in state.claims.lock().as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let head = json!({ "alg": "ES256", "kid": "0" });
    let message = format!("{}.{}", encode(&head), encode(&claims));
    let random = SystemRandom::new();
    let signature = state.key.lock().sign(&random, message.as_bytes()).ok()?;
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
    issued.latest.clone_from(&token);
    let refresh = format!("refresh-{}", issued.number);
    issued.refresh = Some(refresh.clone());
    let access = format!("sha256~{}", issued.number);
    issued.access.clone_from(&access);
    Some(json!({
        "id_token": token, "access_token": access, "token_type": "Bearer", "refresh_token": refresh,
    }))
}

/// An API server that accepts the latest ID token of the provider, as that of one user.
pub(crate) struct ApiServer {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApiServer {
    /// Forwards to the server of `config`, with this token of the user.
    pub(crate) async fn start(
        config: &Config,
        token: &str,
        provider: &Provider,
    ) -> anyhow::Result<Self> {
        let mut config = config.clone();
        config.auth_info = serde_json::from_value(json!({ "token": token }))?;
        let client = runtime::client::builder(config)?.build();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let state = Arc::clone(&provider.state);
        let answer = move |request| forward(client.clone(), Arc::clone(&state), request);
        let serving = serving::serve(listener, None, LIMITS, answer, std::future::pending());
        Ok(Self {
            url,
            task: tokio::spawn(serving),
        })
    }
}

async fn forward(client: Client, state: Arc<State>, request: Request<Incoming>) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    if parts.uri.path() == "/.well-known/oauth-authorization-server" {
        let url = &state.url;
        let document = json!({
            "issuer": url,
            "authorization_endpoint": format!("{url}/authorize?prompt=login"),
            "token_endpoint": format!("{url}/token"),
            "scopes_supported": ["user:full", "user:info"],
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        return Response::new(Body::from(document.to_string().into_bytes()));
    }
    let accepted = {
        let issued = state.issued.lock();
        let bearers = [&issued.latest, &issued.access].map(|it| format!("Bearer {it}"));
        let given = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|it| it.to_str().ok());
        given.is_some_and(|it| bearers.iter().any(|known| known == it)) && !issued.is_unknown
    };
    let failed = |code| {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401,
            "message": "Unauthorized", "reason": "Unauthorized",
        });
        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
        *response.status_mut() = code;
        response
    };
    if !accepted {
        return failed(StatusCode::UNAUTHORIZED);
    }
    parts.headers.remove(AUTHORIZATION);
    parts.headers.remove(HOST);
    let Ok(body) = body.collect().await else {
        return failed(StatusCode::BAD_REQUEST);
    };
    let request = Request::from_parts(parts, Body::from(body.to_bytes().to_vec()));
    match client.send(request).await {
        Ok(response) => response,
        Err(_) => failed(StatusCode::BAD_GATEWAY),
    }
}
