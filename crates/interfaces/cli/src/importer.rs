//! `medley importer`: the program of the pods that import golden images.
//!
//! It is configured by CDI's environment variables, reports progress as lines of JSON and as
//! metrics, and writes the result as one line of JSON to the termination log.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::importer::{Found, Mounted, Progress, Request, Unfinished, Watch, WebOptions};
use anyhow::Context as _;
use api::golden::Sniffing;
use clap::{ArgAction, Args};
use egress::ProxySettings;
use golden_images::cdi::data_volume::Report;
use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::outcome::Outcome;
use golden_images::cdi::pod::{self, environment};
use oci::resolve::{Chosen, own_architecture, usual_architecture};
use oci::{Client, Credential, Keyring, Network, Origin, Roots, Settings, Tls};
use parking_lot::Mutex;
use platform::Source;
use runtime::Key;
use runtime::metrics::{Gauges, Metrics};
use serde_json::json;
use tokio::net::TcpListener;
use tracing::{Instrument as _, field, info_span};

use crate::images::progress::{ProgressReporter, line};
use crate::images::registry::AddressArguments;
use crate::otlp::TraceArguments;
use crate::process;

/// Label of the progress metric, as in CDI.
const OWNER: &str = "ownerUID";

/// Import a disk, in a pod that the operator creates and configures by environment variables.
///
/// Reads credentials from IMPORTER_ACCESS_KEY_ID and IMPORTER_SECRET_KEY, or from
/// IMPORTER_DOCKER_CONFIG, and headers for a web server from IMPORTER_EXTRA_HEADER_0 and so on.
/// Reports progress on standard error, one JSON object per line, and on /metrics. An interrupted
/// import resumes. The exit code is 0 if the disk is complete and 1 otherwise; the termination log
/// has the reason.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) traces: TraceArguments,

    /// Image to import: docker://HOST/PATH:TAG, or a disk at https://HOST/PATH.
    #[arg(long, value_name = "URL", env = environment::ENDPOINT, required_unless_present = "copy_program")]
    image: Option<String>,

    #[command(flatten)]
    addresses: AddressArguments,

    /// Directory where the node has mounted the image. The disk is read from its subdirectory disk
    /// instead of from the registry.
    #[arg(long, value_name = "DIR", env = environment::MOUNTED)]
    mounted: Option<PathBuf>,

    /// Architecture of the disk.
    /// [default: that of the node, or the only one of the image]
    #[arg(long, value_name = "ARCH", env = environment::ARCHITECTURE)]
    arch: Option<String>,

    /// File or block device to write the disk to.
    #[arg(long, value_name = "FILE", default_value = pod::DISK)]
    to: PathBuf,

    /// Size limit of the disk in bytes.
    #[arg(long, value_name = "BYTES", env = environment::SIZE)]
    size: Option<u64>,

    /// Directory with CA certificates to trust, in files named *.crt or *.pem.
    #[arg(long, value_name = "DIR", env = environment::CERTIFICATES)]
    certificates: Option<PathBuf>,

    /// Expected checksum of a file on a web server: sha256:DIGITS or sha512:DIGITS.
    #[arg(long, value_name = "DIGEST", env = environment::CHECKSUM)]
    checksum: Option<String>,

    /// Directory with further headers for a web server, in subdirectories, one `Name: value` per
    /// file.
    #[arg(long, value_name = "DIR", default_value = pod::SECRET_HEADERS)]
    header_folder: PathBuf,

    /// Allow plain HTTP, and do not verify the certificate of the registry.
    #[arg(long, value_name = "BOOL", env = environment::INSECURE, action = ArgAction::Set, default_value_t = false)]
    insecure: bool,

    /// What to do with a disk that only boots on other architectures: Refuse, Warn or Off.
    #[arg(long, value_name = "WORD", env = environment::SNIFFING, default_value = "Refuse", value_parser = sniffing)]
    check_architecture: Sniffing,

    /// UID of the import's owner, as a metric label.
    #[arg(long, value_name = "UID", env = environment::OWNER, default_value = "")]
    owner: String,

    /// Address for /metrics.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([0, 0, 0, 0], pod::METRICS_PORT)))]
    metrics_address: SocketAddr,

    /// Copy this program to FILE instead of importing, for a container whose image lacks it.
    #[arg(long, value_name = "FILE")]
    copy_program: Option<PathBuf>,

    /// File to write the result to.
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

/// The owner label of the progress metric.
type Owner = [(&'static str, String); 1];

fn sniffing(text: &str) -> Result<Sniffing, String> {
    serde_json::from_value(json!(text)).map_err(|_| "expected Refuse, Warn or Off".to_owned())
}

/// Runs the import, and writes the result to the termination log.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(to) = &arguments.copy_program {
        let own = std::env::current_exe().context("finding the path of this program")?;
        std::fs::copy(&own, to)
            .with_context(|| format!("copying {} to {}", own.display(), to.display()))?;
        return Ok(());
    }
    let outcome = process::build_runtime()?.block_on(async {
        let traces = arguments.traces.start().unwrap_or_else(|error| {
            // The import does not depend on it.
            tracing::warn!(
                error = format!("{error:#}"),
                "traces of the import are not exported"
            );
            None
        });
        let span = info_span!(
            target: runtime::TRACE_TARGET, "import",
            image = arguments.image, arch = arguments.arch, error = field::Empty,
        );
        let outcome = import(arguments).instrument(span.clone()).await;
        if let Err(failure) = &outcome {
            span.record("error", field::display(&failure.message));
        }
        drop(span);
        if let Some(traces) = traces {
            traces.finish().await;
        }
        outcome
    });
    let termination_message = match &outcome {
        Ok(report) => Outcome::succeeded(report.clone()),
        Err(failure) => Outcome::failed(failure),
    };
    let mut event = json!(termination_message);
    let name = if outcome.is_ok() {
        "imported"
    } else {
        "failed"
    };
    event["event"] = json!(name);
    // Before the termination log, which exists in pods only: the line reports the result in any
    // case.
    line(&event);
    let path = &arguments.termination_log;
    if let Err(error) = std::fs::write(path, termination_message.write()) {
        // Outside of a pod there is no termination log; the log line above has the result.
        tracing::debug!(%error, path = %path.display(), "cannot write the termination log");
    }
    outcome.map(drop).map_err(anyhow::Error::new)
}

/// Registers the progress metric; call it once per registry.
pub(crate) fn progress(metrics: &Metrics) -> Gauges<Owner> {
    let help = "Progress of the import, in percent";
    metrics.adopted_gauges(pod::PROGRESS, &[OWNER], help)
}

async fn import(arguments: &Arguments) -> Result<Report, Failure> {
    let prepared = prepare(arguments).await.map_err(|error| {
        let reason = match error.downcast_ref::<::importer::Error>() {
            Some(error) => error.reason(),
            None => Reason::ImportFailed,
        };
        Failure::new(reason, format!("{error:#}"))
    });
    let request = prepared?;
    let metrics = Metrics::default();
    let progress = progress(&metrics);
    match TcpListener::bind(arguments.metrics_address).await {
        Ok(listener) => {
            tokio::spawn(controllers::health::serve_metrics(listener, metrics));
        }
        // The import does not depend on it.
        Err(error) => line(&json!({ "event": "no-metrics", "error": error.to_string() })),
    }
    let labels = Arc::new(Mutex::default());
    let watch = ImportObserver {
        reporter: ProgressReporter::lines(),
        progress,
        owner: [(OWNER, arguments.owner.clone())],
        labels: Arc::clone(&labels),
    };
    let stop = process::stop_signal();
    let stop = stop.map_err(|error| Failure::new(Reason::ImportFailed, format!("{error:#}")))?;
    let imported = ::importer::import(request, watch, stop).await;
    let imported = imported.map_err(|error| error.failure())?;
    let labels = std::mem::take(&mut *labels.lock());
    let mut report = imported.report(labels);
    if arguments.arch.is_some() && arguments.check_architecture == Sniffing::Warn {
        let found = ::importer::boots_on(&arguments.to);
        report.sniffed = found.map_err(|error| error.failure())?;
    }
    Ok(report)
}

async fn prepare(arguments: &Arguments) -> anyhow::Result<Request> {
    let image = arguments.image.as_deref().unwrap_or_default();
    let source: Source = image.parse()?;
    let host = source.host();
    let mut settings = Settings::for_service(Roots::of_system(), arguments.addresses.policy());
    // The pod requests 60 MB, as CDI's importers do; the default cache of the client may take more.
    settings.cache_bytes = crate::images::registry::SMALL_CACHE;
    // Set on the pod by the operator; the proxies as CDI does it.
    let proxies = ProxySettings::from_env()?;
    let mut network = match std::env::var(environment::NETWORK) {
        Ok(text) if !text.is_empty() => Network::of_portable(&text, proxies)
            .with_context(|| format!("reading {}", environment::NETWORK))?,
        _ => Network {
            proxies,
            ..Network::default()
        },
    };
    let mut keyring = Keyring::anonymous();
    // Not contacted if the node has already pulled the image.
    if let Some(host) = host.as_ref().filter(|_| arguments.mounted.is_none()) {
        if let Some(folder) = &arguments.certificates {
            let certificates = certificates(folder)
                .with_context(|| format!("reading the certificates in {}", folder.display()))?;
            if let Some(tls) = certificates {
                settings.tls.insert(host.clone(), tls);
            }
        }
        if arguments.insecure {
            network.routes = network.routes.with_insecure(host);
        }
        credentials(&mut keyring, host)?;
    }
    let client = Client::new(settings, network);
    let keyring = Arc::new(keyring);
    let asked = arguments.arch.clone().filter(|it| !it.is_empty());
    let architecture = if let Some(architecture) = &asked {
        architecture.clone()
    } else if arguments.mounted.is_some() {
        own_architecture().to_owned()
    } else {
        let usual = usual_architecture(&source, &client, &keyring).await;
        usual.map_err(::importer::Error::from)?
    };
    let web = match &source {
        Source::Web(_) => web(arguments)?,
        _ => WebOptions::default(),
    };
    let mut request = Request::new(source, client, &architecture, arguments.to.clone());
    request.keyring = keyring;
    request.web = web;
    request.limit = arguments.size;
    request.mounted.clone_from(&arguments.mounted);
    // The volume belongs to this import: it may hold the data of an interrupted attempt.
    request.overwrite = true;
    request.unfinished = Unfinished::Keep;
    // Without a requested architecture there is nothing that the disk could contradict.
    request.sniff = arguments.check_architecture == Sniffing::Refuse && asked.is_some();
    Ok(request)
}

/// Options of a download from a web server.
fn web(arguments: &Arguments) -> anyhow::Result<WebOptions> {
    let header = |index: usize| std::env::var(format!("{}{index}", environment::HEADER)).ok();
    let mut lines: Vec<String> = (0..).map_while(header).collect();
    let folder = &arguments.header_folder;
    if folder.exists() {
        let reading = || format!("reading the headers in {}", folder.display());
        for secret in std::fs::read_dir(folder).with_context(reading)? {
            for entry in std::fs::read_dir(secret?.path()).with_context(reading)? {
                let path = entry?.path();
                // A mounted secret has `..data` directories beside its files, which are symbolic
                // links.
                if path.is_file() {
                    let line = std::fs::read_to_string(&path).with_context(reading)?;
                    lines.push(line.trim_end().to_owned());
                }
            }
        }
    }
    let checksum = arguments.checksum.as_deref().filter(|it| !it.is_empty());
    WebOptions::read(checksum, lines.iter().map(String::as_str)).map_err(anyhow::Error::msg)
}

fn credentials(keyring: &mut Keyring, host: &str) -> anyhow::Result<()> {
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let (name, password) = (
        variable(environment::ACCESS_KEY_ID),
        variable(environment::SECRET_KEY),
    );
    if let (Some(name), Some(password)) = (name, password) {
        // For this host only: a redirect to another one must not receive the password.
        keyring.add(host, Credential::password(name, password));
    }
    if let Some(text) = variable(environment::DOCKER_CONFIG) {
        keyring
            .add_docker_config(text.as_bytes(), Origin::Secret)
            .with_context(|| format!("reading {}", environment::DOCKER_CONFIG))?;
    }
    Ok(())
}

/// All certificates in a directory; `None` if there are none.
fn certificates(folder: &Path) -> anyhow::Result<Option<Tls>> {
    let mut tls = Tls::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let end = path.extension().and_then(|it| it.to_str());
        // CDI mounts a ConfigMap here, whose other keys and `..data` links are no certificates.
        if matches!(end, Some("crt" | "pem")) {
            let pem = std::fs::read(&path)?;
            tls.add_authorities(&pem)
                .map_err(anyhow::Error::msg)
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok((!tls.is_empty()).then_some(tls))
}

/// Reports progress, in lines and as a metric.
struct ImportObserver {
    reporter: ProgressReporter,
    progress: Gauges<Owner>,
    owner: Owner,
    labels: Arc<Mutex<std::collections::BTreeMap<String, String>>>,
}

impl Watch for ImportObserver {
    fn chosen(&mut self, chosen: &Chosen) {
        *self.labels.lock() = ::importer::volume_labels(chosen);
        self.reporter.chosen(chosen);
    }

    fn found(&mut self, found: &Found) {
        self.reporter.found(found);
    }

    fn mounted(&mut self, mounted: &Mounted) {
        self.reporter.mounted(mounted);
    }

    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        if let Some(percent) = progress.percent() {
            let key = Key::new("", "import");
            self.progress.set(&key, [(self.owner.clone(), percent)]);
        }
        self.reporter.progress(progress)
    }
}
