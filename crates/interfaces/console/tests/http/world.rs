//! A cluster with the CRDs and roles of Medley, users with tokens, the admission webhook, and a
//! console.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::advisor::{VirtPlatformConfig, VirtPlatformConfigSpec};
use bytes::Bytes;
use console::{Console, Options, SessionKeys};
use governance::Registry;
use http::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use serde_json::{Value, json};
use testkit::{ServedCluster, TestCluster, wait_until};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use webhook::{WebhookServer, Webhooks};

pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const NAME: &str = "load-aware-rebalancing";
pub(crate) const PLAN: &str =
    "sha256:1111111111111111111111111111111111111111111111111111111111111111";
pub(crate) const NAMESPACE: &str = "medley-system";

pub(crate) struct ConsoleFixture {
    pub(crate) cluster: TestCluster,
    pub(crate) console: Console,
    pub(crate) address: SocketAddr,
    pub(crate) served: ServedCluster,
    _check: WebhookServer,
    _replica: Replica,
}

/// One of the consoles of a cluster; it stops when this is dropped.
pub(crate) struct Replica {
    pub(crate) console: Console,
    pub(crate) address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Replica {
    pub(crate) async fn start(options: Options, tls: Option<serving::Tls>) -> anyhow::Result<Self> {
        let console = Console::new(options);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = console.clone();
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serving.serve(listener, tls, stopped).await;
        });
        Ok(Self {
            console,
            address,
            _stop: stop,
        })
    }
}

impl ConsoleFixture {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let admin = cluster.client();
        controllers::install(&admin, NAMESPACE).await?;
        let registry = Registry::standard::<&str>(&[])?;
        controllers::grant(
            &admin,
            NAMESPACE,
            &registry,
            &[controllers::Job::Governance].into(),
        )
        .await?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let check = webhook::start(admin, any, &Webhooks::default()).await?;
        let served = cluster.serve().await?;
        let replica = Replica::start(options(&served).await?, None).await?;
        Ok(Self {
            cluster,
            console: replica.console.clone(),
            address: replica.address,
            served,
            _check: check,
            _replica: replica,
        })
    }

    /// The options of another console of the cluster.
    pub(crate) async fn options(&self) -> anyhow::Result<Options> {
        options(&self.served).await
    }

    /// The token of a new user with these cluster roles.
    pub(crate) async fn token(&self, name: &str, roles: &[&str]) -> anyhow::Result<String> {
        let admin = self.cluster.client();
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        let params = PostParams::default();
        accounts.create(&params, &account).await?;
        for role in roles {
            let binding: ClusterRoleBinding = serde_json::from_value(json!({
                "metadata": { "name": format!("{name}-{role}") },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
                "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
            }))?;
            Api::all(admin.clone()).create(&params, &binding).await?;
        }
        self.token_of(name).await
    }

    /// Another token of a user.
    pub(crate) async fn token_of(&self, name: &str) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await?;
        answer.status.and_then(|it| it.token).context("a token")
    }

    /// A signed-in user.
    pub(crate) async fn browser(&self, name: &str, roles: &[&str]) -> anyhow::Result<Browser> {
        let token = self.token(name, roles).await?;
        let mut browser = Browser::new(self.address);
        // A real API server notices new service accounts a moment later.
        wait_until("the token is accepted", WAIT_TIMEOUT, async || {
            let mut trial = Browser::new(self.address);
            let answer = trial.post("/sign-in", &[("token", &token)]).await?;
            Ok((answer.status == StatusCode::SEE_OTHER).then_some(()))
        })
        .await?;
        let answer = browser.post("/sign-in", &[("token", &token)]).await?;
        ensure!(answer.status == StatusCode::SEE_OTHER, "{answer:?}");
        Ok(browser)
    }

    /// The configurations as an administrator sees them.
    pub(crate) fn configs(&self) -> Api<VirtPlatformConfig> {
        Api::all(self.cluster.client())
    }

    /// A configuration with a plan for review of two items, of which the second takes over a field.
    pub(crate) async fn review(&self) -> anyhow::Result<VirtPlatformConfig> {
        let spec = VirtPlatformConfigSpec {
            profile: NAME.to_owned(),
            ..VirtPlatformConfigSpec::default()
        };
        let new = VirtPlatformConfig::new(NAME, spec);
        let made = self.configs().create(&PostParams::default(), &new).await?;
        self.report(json!({
            "phase": "ReviewRequired", "observedGeneration": made.metadata.generation, "planDigest": PLAN,
            "impactSeverity": "High",
            "warnings": ["All workers reboot, one after the other."],
            "items": [
                {
                    "name": "enable-metrics", "impactSeverity": "High",
                    "targetRef": { "apiVersion": "v1", "kind": "MachineConfig", "name": "99-worker" },
                    "diff": "--- 99-worker (MachineConfig)\n+++ 99-worker (MachineConfig)\n@@ -1,2 +1,3 @@\n spec:\n-  old: 1\n+  new: <script>alert(1)</script>\n+  more: 2\n",
                },
                {
                    "name": "descheduler", "impactSeverity": "Low", "dependsOn": ["enable-metrics"],
                    "targetRef": { "apiVersion": "v1", "kind": "KubeDescheduler", "name": "cluster" },
                    "takeovers": [{
                        "path": "spec.mode", "manager": "kubectl-edit", "since": "2026-01-02T03:04:05Z",
                        "live": "Automatic", "wanted": "Predictive",
                    }],
                    "deviations": [{
                        "path": "spec.interval", "class": "ChangedByAdmission", "wanted": 60, "kept": 120,
                        "by": "MutatingAdmissionPolicy floor",
                    }],
                },
            ],
        }))
        .await
    }

    /// Writes the status, in place of the operator.
    pub(crate) async fn report(&self, status: Value) -> anyhow::Result<VirtPlatformConfig> {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        Ok(self.configs().patch_status(NAME, &params, &patch).await?)
    }
}

async fn options(served: &ServedCluster) -> anyhow::Result<Options> {
    let kubeconfig = Kubeconfig::read_from(&served.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Options {
        cluster: config,
        namespace: NAMESPACE.to_owned(),
        hosts: vec!["console.example".to_owned()],
        secure: false,
        version: "test".to_owned(),
        addresses: platform::AddressPolicy::default(),
        registries: cluster_view::placement::Registries::default()
            .client()
            .clone(),
        keys: SessionKeys::of_process(),
        provider: None,
    })
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    pub(crate) fn location(&self) -> &str {
        self.header(LOCATION)
    }
}

/// A browser without JavaScript.
pub(crate) struct Browser {
    client: HttpClient<HttpConnector, Full<Bytes>>,
    host: String,
    /// A load balancer sends each request to the next one.
    replicas: Vec<SocketAddr>,
    requests: AtomicUsize,
    pub(crate) cookies: Vec<(String, String)>,
}

impl Browser {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            client: HttpClient::builder(TokioExecutor::new()).build_http(),
            host: address.to_string(),
            replicas: vec![address],
            requests: AtomicUsize::default(),
            cookies: Vec::new(),
        }
    }

    /// A browser that opens `console.example`, which is balanced among these replicas.
    pub(crate) fn balanced(replicas: &[SocketAddr]) -> Self {
        let mut browser = Self::new(([127, 0, 0, 1], 0).into());
        browser.move_to(replicas);
        "console.example".clone_into(&mut browser.host);
        browser
    }

    /// Other replicas serve the same host from now on.
    pub(crate) fn move_to(&mut self, replicas: &[SocketAddr]) {
        self.replicas = replicas.to_vec();
    }

    /// A request as a browser sends it.
    pub(crate) fn request(&self, method: &Method, path: &str) -> http::request::Builder {
        let turn = self.requests.fetch_add(1, Ordering::Relaxed);
        let replica = self.replicas[turn % self.replicas.len()];
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("http://{replica}{path}"))
            .header(HOST, self.host.clone());
        if *method == Method::POST {
            request = request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header(ORIGIN, format!("http://{}", self.host));
        }
        let cookies = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let cookies: Vec<String> = cookies.collect();
        if cookies.is_empty() {
            return request;
        }
        request.header(COOKIE, cookies.join("; "))
    }

    /// Sends a request, and returns the response with its body unread.
    pub(crate) async fn open(
        &self,
        request: http::request::Builder,
        body: String,
    ) -> anyhow::Result<http::Response<Incoming>> {
        Ok(self.client.request(request.body(Full::from(body))?).await?)
    }

    pub(crate) async fn send(
        &mut self,
        request: http::request::Builder,
        body: String,
    ) -> anyhow::Result<Answer> {
        let (parts, body) = self.open(request, body).await?.into_parts();
        for cookie in parts.headers.get_all(SET_COOKIE) {
            let pair = cookie.to_str()?.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').context("a cookie")?;
            self.cookies.retain(|(known, _)| known != name);
            self.cookies.push((name.to_owned(), value.to_owned()));
        }
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(body.collect().await?.to_bytes().to_vec())?,
        })
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        let request = self.request(&Method::GET, path);
        self.send(request, String::new()).await
    }

    /// The status of a page, without its cookies.
    pub(crate) async fn status(&self, path: &str) -> anyhow::Result<StatusCode> {
        let request = self.request(&Method::GET, path);
        Ok(self.open(request, String::new()).await?.status())
    }

    /// A page that has to exist.
    pub(crate) async fn page(&mut self, path: &str) -> anyhow::Result<String> {
        let answer = self.get(path).await?;
        ensure!(answer.status == StatusCode::OK, "{path}: {answer:?}");
        Ok(answer.body)
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let request = self.request(&Method::POST, path);
        self.send(request, form(fields)).await
    }

    /// Sends a form with the CSRF token of this session.
    pub(crate) async fn submit(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let csrf = self.csrf().await?;
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend(fields);
        self.post(path, &all).await
    }

    pub(crate) async fn csrf(&mut self) -> anyhow::Result<String> {
        let page = self.page("/").await?;
        let (_, rest) = page
            .split_once("name=\"csrf\" value=\"")
            .context("a form")?;
        let (token, _) = rest.split_once('"').context("a token")?;
        Ok(token.to_owned())
    }
}

/// Form-encodes fields.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        let bytes = text.bytes();
        bytes
            .map(|byte| match byte {
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' => {
                    char::from(byte).to_string()
                }
                _ => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}
