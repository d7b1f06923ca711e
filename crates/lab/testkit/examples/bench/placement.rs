//! Placement admission: latency for pods that are not gated, with known images and with unknown
//! ones; and the number of registry requests to inspect an image.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use controllers::Registries;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use oci::{Keyring, Roots, Routes, Settings};
use placement::{ImageConsumer, ImageUse, Inspection};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{FaultyServer, Layout, Process, Registry, ScriptedResponse, free_port, wait_until};
use tokio::task::JoinSet;

use crate::report::Report;
use crate::target::Target;

/// Budget for the admission of a pod with known images at the rate below, in microseconds.
const LATENCY_BUDGET_US: f64 = 1000.0;
/// Upper bound of the histogram bucket, in seconds, in which the webhook has to decide on such a
/// pod.
const FAST_BUCKET: &str = "0.001";
/// Budget of slower pods, in percent.
const SLOW_BUDGET_PERCENT: f64 = 1.0;
/// Admission reviews per second.
const RATE: u32 = 2_000;
/// Repetitions at that rate; the median round counts, because hosts pause.
const ROUNDS: usize = 5;
/// Timeout for the webhook to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of API server connections.
const CLIENTS: usize = 16;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Duration of each measurement.
    pub(crate) span: Duration,
}

/// Runs all measurements.
pub(crate) async fn measure(binary: &Path, size: Size, report: &mut Report) -> anyhow::Result<()> {
    report.column("medley");
    requests(report).await?;
    let registry = FaultyServer::start(|_| {
        ScriptedResponse::answer(200, index().to_string()).with("Content-Type", INDEX)
    })
    .await?;
    let fixture = Fixture::start(binary, size.nodes, &registry.host()).await?;
    let image = format!("{}/app:1", registry.host());
    let known = question(&image, &json!({}));
    let ignored = question(&image, &json!({ "nodeName": "node-0" }));
    // The first review misses the cache and starts the inspection.
    wait_until("the image is known", START_TIMEOUT, async || {
        let (answer, _) = fixture.asker.ask(&known).await?;
        Ok(answer.contains("its images run on").then_some(()))
    })
    .await?;
    for (name, ask) in [("ignored", &ignored), ("known", &known)] {
        let fixed = ask.clone();
        let times = fixture.load(size.span, move |_| fixed.clone()).await?;
        record_latencies(report, name, &times, size.span);
    }
    let before = fixture.asker.decided().await?;
    // Reviews without a decision take the same path: they measure the overhead of host and network.
    let (mut left_alone, mut decided) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        left_alone.push(fixture.paced(size.span, &ignored).await?);
        decided.push(fixture.paced(size.span, &known).await?);
    }
    let after = fixture.asker.decided().await?;
    let row = |name: &str, percent: usize| format!("{name}, {RATE}/s, p{percent}");
    for (name, rounds) in [("ignored", &left_alone), ("known", &decided)] {
        report.less_is_better(&row(name, 50), "us", usual(rounds, 50));
    }
    report.less_is_better(&row("ignored", 99), "us", usual(&left_alone, 99));
    report.at_most(
        LATENCY_BUDGET_US,
        &row("known", 99),
        "us",
        usual(&decided, 99),
    );
    let late = 1.0 - (after.soon - before.soon) / (after.all - before.all);
    let name = format!("decided later than {FAST_BUCKET} s");
    report.at_most(SLOW_BUDGET_PERCENT, &name, "%", late * 100.0);
    // Last, because inspections of unknown images continue after the answers.
    let host = registry.host();
    let fresh = move |n: usize| question(&format!("{host}/app:{n}-fresh"), &json!({}));
    let times = fixture.load(size.span, fresh).await?;
    record_latencies(report, "not known", &times, size.span);
    Ok(())
}

fn record_latencies(report: &mut Report, name: &str, times: &[Duration], span: Duration) {
    report.less_is_better(&format!("{name}, p50"), "us", percentile(times, 50));
    report.less_is_better(&format!("{name}, p99"), "us", percentile(times, 99));
    let rate = counted(times.len()) / span.as_secs_f64();
    report.more_is_better(&format!("{name}, answers"), "/s", rate);
}

/// Number of requests to a real registry for one image inspection.
async fn requests(report: &mut Report) -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let folder = tempfile::tempdir()?;
    let mut layout = Layout::new(&folder.path().join("layout"))?;
    let amd = layout.image("amd64", &[b"amd64"], &json!({}))?;
    let arm = layout.image("arm64", &[b"arm64"], &json!({}))?;
    let index = layout.index(&[amd, arm.clone()])?;
    for (name, descriptor) in [("index", &index), ("single", &arm)] {
        layout.name(name, descriptor)?;
        registry.push(&layout.source(name), &format!("{name}:1"))?;
    }
    let registries = registries(&registry.host());
    let digest = index["digest"].as_str().context("the index has a digest")?;
    for (name, image, expected) in [
        ("requests for an index", "index:1".to_owned(), 1),
        ("requests for one manifest", "single:1".to_owned(), 2),
        ("requests for a known digest", format!("index@{digest}"), 0),
    ] {
        let used = ImageUse {
            image: format!("{}/{image}", registry.host()),
            by: ImageConsumer::Container("app".to_owned()),
            always: false,
        };
        let before = registry.requests().len();
        let keyring = Arc::new(Keyring::anonymous());
        let known = registries.inspect(&used, &keyring).await;
        let known = known.map_err(|failure| anyhow::anyhow!(failure.known.message))?;
        ensure!(matches!(known, Inspection::Platforms(_)), "{known:?}");
        // The registry logs requests after it has answered them.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let asked = registry.requests().len() - before;
        ensure!(asked == expected, "{name}: {asked}");
        report.less_is_better(name, "", counted(asked));
    }
    Ok(())
}

fn registries(host: &str) -> Registries {
    let routes = Routes::direct().with_plain(host);
    let client = oci::Client::new(Settings::for_user(Roots::none()), routes);
    Registries::new(client, Keyring::anonymous())
}

/// An index with as many entries as official language images have.
fn index() -> Value {
    let platforms = [
        "amd64", "arm", "arm64", "386", "mips64le", "ppc64le", "riscv64", "s390x",
    ];
    let entry = |architecture: &&str| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{}", "a".repeat(64)), "size": 1000,
            "platform": { "os": "linux", "architecture": architecture },
        })
    };
    let entries: Vec<Value> = platforms.iter().map(entry).collect();
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries })
}

/// An admission review of a pod, as an API server sends it.
fn question(image: &str, more: &Value) -> Arc<Vec<u8>> {
    let mut spec = json!({
        "containers": [{ "name": "app", "image": image, "imagePullPolicy": "IfNotPresent" }],
        "serviceAccountName": "default",
        "tolerations": [
            { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
        ],
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7f0b2891-916f-4ed6-b7cd-27bff1815a8c",
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "namespace": "default", "operation": "CREATE", "userInfo": { "username": "bench" },
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": "web", "namespace": "default", "labels": { "app": "web" } },
                "spec": spec,
            },
        },
    });
    Arc::new(review.to_string().into_bytes())
}

/// A cluster and the released webhook, in processes of their own as in an installation.
struct Fixture {
    asker: Asker,
    _check: Process,
    _cluster: Target,
    _folder: TempDir,
}

impl Fixture {
    async fn start(binary: &Path, nodes: usize, registry: &str) -> anyhow::Result<Self> {
        let cluster = Target::medley(binary).await?;
        let client = cluster.client().await?;
        let api: Api<Node> = Api::all(client.clone());
        for n in 0..nodes {
            let architecture = if n % 3 == 0 { "arm64" } else { "amd64" };
            let node = serde_json::from_value(json!({ "metadata": {
                "name": format!("node-{n}"),
                "labels": { "kubernetes.io/arch": architecture, "kubernetes.io/os": "linux" },
            } }))?;
            api.create(&PostParams::default(), &node).await?;
        }
        let folder = TempDir::new().context("making a folder")?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let (here, kubeconfig) = (format!("https://{address}"), cluster.kubeconfig());
        let register = format!("url={here}");
        let words = [
            OsStr::new("webhook"),
            OsStr::new("--kubeconfig"),
            kubeconfig.as_os_str(),
            OsStr::new("--address"),
            OsStr::new(&address),
            OsStr::new("--register"),
            OsStr::new(&register),
            OsStr::new("--controllers"),
            OsStr::new("placement"),
            OsStr::new("--insecure"),
            OsStr::new(registry),
        ];
        let check = Process::start(binary, words, folder.path())?;
        wait_until("the check is ready", START_TIMEOUT, async || {
            let output = check.output();
            Ok(output.lines().any(|line| line == "ready").then_some(()))
        })
        .await?;
        let registered: Api<MutatingWebhookConfiguration> = Api::all(client);
        let registered = registered.get(api::placement::WEBHOOK).await?;
        let hook = registered.webhooks.into_iter().flatten().next();
        let authority = hook.and_then(|hook| hook.client_config.ca_bundle);
        let authority = authority.context("the check is registered without an authority")?;
        let authority = pem(&String::from_utf8(authority.0)?)?;
        Ok(Self {
            asker: Asker::new(&format!("{here}/placement"), authority)?,
            _check: check,
            _cluster: cluster,
            _folder: folder,
        })
    }

    /// Reviews from concurrent clients without pauses; returns the latencies.
    async fn load(
        &self,
        span: Duration,
        question: impl Fn(usize) -> Arc<Vec<u8>> + Send + Sync + Clone + 'static,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut clients = JoinSet::new();
        let end = Instant::now() + span;
        for number in 0..CLIENTS {
            let (asker, question) = (self.asker.clone(), question.clone());
            clients.spawn(async move {
                let mut times = Vec::new();
                let mut n = number;
                while Instant::now() < end {
                    times.push(asker.ask(&question(n)).await?.1);
                    n += CLIENTS;
                }
                anyhow::Ok(times)
            });
        }
        let mut times = Vec::new();
        while let Some(some) = clients.join_next().await {
            times.extend(some??);
        }
        times.sort_unstable();
        Ok(times)
    }

    /// Reviews at the budgeted rate, regardless of outstanding answers. Each is sent at its own
    /// time: the runtime's timers would send two at once every millisecond.
    async fn paced(
        &self,
        span: Duration,
        question: &Arc<Vec<u8>>,
    ) -> anyhow::Result<Vec<Duration>> {
        let (tick, mut ticks) = tokio::sync::mpsc::unbounded_channel();
        let pace = std::thread::spawn(move || {
            let (start, apart) = (Instant::now(), Duration::from_secs(1) / RATE);
            let mut next = start;
            while next < start + span && tick.send(()).is_ok() {
                next += apart;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        let mut asked = JoinSet::new();
        while ticks.recv().await.is_some() {
            let (asker, question) = (self.asker.clone(), Arc::clone(question));
            asked.spawn(async move { asker.ask(&question).await.map(|(_, took)| took) });
        }
        ensure!(pace.join().is_ok(), "the pace was lost");
        let mut times = Vec::new();
        while let Some(one) = asked.join_next().await {
            times.push(one??);
        }
        times.sort_unstable();
        Ok(times)
    }
}

/// Sends reviews as an API server does: HTTP/1.1 with persistent connections.
#[derive(Clone)]
struct Asker {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    address: Uri,
}

/// Counters of mutated pods, and of those decided within the bucket.
struct AdmissionCounters {
    all: f64,
    soon: f64,
}

impl Asker {
    fn new(address: &str, authority: Vec<u8>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.into())?;
        let tls = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnector::from((tcp, tls));
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).build(connector),
            address: address.parse()?,
        })
    }

    /// Reads the counters from the webhook's metrics.
    async fn decided(&self) -> anyhow::Result<AdmissionCounters> {
        const NAME: &str = "medley_placement_admission_duration_seconds";
        let mut address = self.address.clone().into_parts();
        address.path_and_query = Some("/metrics".parse()?);
        let answer = self.http.get(Uri::from_parts(address)?).await?;
        let answer = answer.into_body().collect().await?.to_bytes();
        let answer = String::from_utf8(answer.into())?;
        let value = |name: &str, of: &str| {
            let start = format!("{NAME}_{name}{{");
            let mut lines = answer.lines().filter(|line| line.starts_with(&start));
            let line = lines.find(|line| line.contains("\"Placed\"") && line.contains(of));
            let number = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            number.with_context(|| format!("no {NAME}_{name} in {answer}"))
        };
        Ok(AdmissionCounters {
            all: value("count", "")?,
            soon: value("bucket", &format!("le=\"{FAST_BUCKET}\""))?,
        })
    }

    /// Sends a review; returns the outcome and the latency.
    async fn ask(&self, question: &[u8]) -> anyhow::Result<(String, Duration)> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.address.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(question.to_vec()))?;
        let started = Instant::now();
        let answer = self.http.request(request).await?;
        let answer = answer.into_body().collect().await?.to_bytes();
        let took = started.elapsed();
        let answer = String::from_utf8(answer.into())?;
        ensure!(answer.contains("\"allowed\":true"), "{answer}");
        Ok((answer, took))
    }
}

/// The DER bytes of a certificate.
fn pem(text: &str) -> anyhow::Result<Vec<u8>> {
    use base64::Engine as _;
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let joined: String = lines.collect();
    base64::engine::general_purpose::STANDARD
        .decode(joined)
        .context("reading a certificate")
}

/// A percentile of sorted times, in microseconds.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times
        .get(place)
        .map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// A percentile of the median round.
fn usual(rounds: &[Vec<Duration>], percent: usize) -> f64 {
    let mut each: Vec<f64> = rounds
        .iter()
        .map(|times| percentile(times, percent))
        .collect();
    each.sort_unstable_by(f64::total_cmp);
    each.get(each.len() / 2).copied().unwrap_or_default()
}

fn counted(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
