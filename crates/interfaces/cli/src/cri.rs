//! `medley cri`: the image service of a node.

use std::path::PathBuf;

use ::cri::{Backend, Handlers, Listening, Options, Service, path_of};
use anyhow::{Context as _, ensure};
use clap::Args;
use machinery::quantity::Quantity;
use platform::{AddressRange, Platform, Reference};

use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::{exit, process};

/// Serve images to a kubelet, separately for each runtime handler (CRI v1 ImageService).
///
/// For the kubelet's --image-service-endpoint. A name pulled for two handlers gives two images,
/// each of the platform that its handler runs. Handlers are configured as in containerd
/// (plugins."io.containerd.cri.v1.images".runtime_platforms.NAME.platform) or in a shorter form
/// ([handlers.NAME] platform = "windows(10.0.20348)/amd64"). Without a configuration there is the
/// default handler, for the platform of this host. With --backend, handlers that are not configured
/// and all other services are forwarded to an existing runtime. Prints `ready` when it serves.
/// Stops on Ctrl-C and SIGTERM; an interrupted pull resumes when it is requested again.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The socket: unix:///PATH or a path. Only its owner may connect.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "unix:///run/medley/cri.sock"
    )]
    listen: String,

    /// The directory for images, created if missing.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/medley/cri")]
    root: PathBuf,

    /// Handlers and their platforms, in TOML: containerd's configuration, or the shorter form. Can
    /// be repeated.
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// The socket of a runtime that provides the handlers that are not configured here, and all
    /// services but images: unix:///run/containerd/containerd.sock.
    #[arg(long, value_name = "ADDR")]
    backend: Option<String>,

    /// The platform of this host, if detection is wrong: linux/arm64/v8.
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,

    /// Size limit of the directory, such as 50Gi. Pulls that would exceed it fail.
    #[arg(long, value_name = "SIZE")]
    limit: Option<String>,

    /// Maximum number of concurrent layer downloads, over all pulls.
    #[arg(long, value_name = "N", default_value_t = 6)]
    downloads: usize,

    /// An image to report as pinned, so that the kubelet does not garbage-collect it, such as the
    /// sandbox image. Can be repeated.
    #[arg(long, value_name = "IMAGE")]
    pin: Vec<String>,

    #[command(flatten)]
    registry: RegistryArguments,

    #[command(flatten)]
    addresses: AddressArguments,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(
        arguments.downloads > 0,
        "--downloads 0: expected at least 1"
    );
    let path = path_of(&arguments.listen).context("--listen")?;
    let limit = arguments.limit.as_deref().map(bytes).transpose()?;
    let handlers = handlers(arguments)?;
    // Pods name the images, so this guards against SSRF. Registries on the node itself are common
    // and stay reachable, as they are for containerd; the metadata service of the node does not.
    let addresses = arguments.addresses.policy_with(AddressRange::LOOPBACK);
    let client = arguments.registry.open_small(&addresses)?;
    let keyring = arguments.registry.keyring()?;
    let runtime = process::build_runtime()?;
    let served = runtime.block_on(async {
        let stop = process::stop_signal()?;
        let backend = match &arguments.backend {
            Some(address) => Some(Backend::new(address).context("--backend")?),
            None => None,
        };
        let service = Service::open(Options {
            root: arguments.root.clone(),
            handlers,
            client,
            keyring,
            limit,
            downloads: arguments.downloads,
            backend,
        })?;
        let listening = Listening::bind(service, &path)?;
        exit::print(&format!("ready: unix://{}\n", path.display()))?;
        listening.serve(stop).await.context("serving images")
    });
    // An interrupted pull may still wait for a registry; no caller waits for the pull.
    runtime.shutdown_background();
    served
}

/// The configured handlers; without a backend there is always a default handler.
fn handlers(arguments: &Arguments) -> anyhow::Result<Handlers> {
    let own = Platform::new("linux", importer::own_architecture());
    let host = match &arguments.platform {
        Some(text) => Platform::parse_on(text, &own).context("--platform")?,
        None => own,
    };
    let mut files = Vec::new();
    for path in &arguments.config {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("--config {name}"))?;
        files.push((name, text));
    }
    let files = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    let mut handlers = Handlers::read(files, &host)?;
    for image in &arguments.pin {
        let reference: Reference = image.parse().with_context(|| format!("--pin {image:?}"))?;
        handlers.pin(&reference);
    }
    if arguments.backend.is_none() {
        return Ok(handlers.or_default(&host));
    }
    ensure!(
        !handlers.names().is_empty(),
        "--backend needs --config: without a handler of its own, this would only forward requests"
    );
    Ok(handlers)
}

/// A Kubernetes quantity in bytes.
fn bytes(text: &str) -> anyhow::Result<u64> {
    let expected = || format!("--limit {text:?}: expected bytes, such as 50Gi or 100G");
    let quantity: Quantity = text.parse().with_context(expected)?;
    u64::try_from(quantity.value())
        .ok()
        .filter(|bytes| *bytes > 0)
        .with_context(expected)
}
