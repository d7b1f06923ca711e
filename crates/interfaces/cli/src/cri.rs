//! `medley cri`: the image service of a node.

use std::path::PathBuf;

use ::cri::{Backend, Handlers, Listening, Options, Service, path_of};
use anyhow::{Context as _, ensure};
use clap::Args;
use machinery::quantity::Quantity;
use platform::{AddressRange, Platform, Reference};

use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::{exit, process};

/// Serve images to a kubelet, each runtime handler its own (CRI v1 ImageService).
///
/// For the kubelet's --image-service-endpoint. The same name pulled for two handlers gives two images:
/// each of the platform that its handler runs, as the configuration says in containerd's words
/// (plugins."io.containerd.cri.v1.images".runtime_platforms.NAME.platform) or in ours
/// ([handlers.NAME] platform = "windows(10.0.20348)/amd64"). Without a configuration there is the default
/// handler, which runs what this machine does. With --backend, handlers that are not configured and all
/// other services are those of a runtime that is there already. Prints `ready` when it can be used.
/// Stops on Ctrl-C and SIGTERM; a pull that was cut off is gone on with.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The socket: unix:///PATH or a path. Only its owner may open it.
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "unix:///run/medley/cri.sock"
    )]
    listen: String,

    /// The folder for images, made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/medley/cri")]
    root: PathBuf,

    /// Handlers and what they run, in TOML: containerd's configuration, or a shorter one. Can be given
    /// several times.
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// The socket of a runtime that has the handlers which are not configured here, and all services but
    /// images: unix:///run/containerd/containerd.sock.
    #[arg(long, value_name = "ADDR")]
    backend: Option<String>,

    /// What this machine runs, if it is not what it seems: linux/arm64/v8.
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,

    /// The most that the folder may hold, such as 50Gi. Pulls that would need more fail.
    #[arg(long, value_name = "SIZE")]
    limit: Option<String>,

    /// How many layers are downloaded at once, in all pulls together.
    #[arg(long, value_name = "N", default_value_t = 6)]
    downloads: usize,

    /// An image that says of itself that it is to stay, such as the one of sandboxes. Can be given several
    /// times.
    #[arg(long, value_name = "IMAGE")]
    pin: Vec<String>,

    #[command(flatten)]
    registry: RegistryArguments,

    #[command(flatten)]
    addresses: AddressArguments,
}

/// Serves until it is asked to stop.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(
        arguments.downloads > 0,
        "--downloads 0: expected at least one"
    );
    let path = path_of(&arguments.listen).context("--listen")?;
    let limit = arguments.limit.as_deref().map(bytes).transpose()?;
    let handlers = handlers(arguments)?;
    // Pods name images. Registries on the node itself are common and stay reachable, as they are for containerd;
    // the metadata service of the node is not.
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
    // A pull that was cut off may still wait for a registry, and nobody for it.
    runtime.shutdown_background();
    served
}

/// What is configured; without a backend there is always a default handler.
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
        "--backend needs --config: without a handler of its own, this would only pass on requests"
    );
    Ok(handlers)
}

/// A quantity as a number of bytes.
fn bytes(text: &str) -> anyhow::Result<u64> {
    let expected = || format!("--limit {text:?}: expected bytes, such as 50Gi or 100G");
    let quantity: Quantity = text.parse().with_context(expected)?;
    u64::try_from(quantity.value())
        .ok()
        .filter(|bytes| *bytes > 0)
        .with_context(expected)
}
