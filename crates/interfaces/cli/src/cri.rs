//! `medley cri`: the image service of a node.

use std::path::PathBuf;

use ::cri::{Backend, Handlers, Listening, Options, Service, path_of};
use anyhow::{Context as _, ensure};
use clap::Args;
use platform::{AddressRange, Platform, Reference};

use crate::images::registry::{AddressArguments, RegistryArguments};
use crate::read::bytes;
use crate::{exit, process};

/// Serve the CRI v1 ImageService to a kubelet, with separate images for each runtime handler.
///
/// Point the kubelet's --image-service-endpoint to it. An image name that is pulled for two handlers
/// results in two images, each for the platform that its handler runs. Configure handlers as in
/// containerd (plugins."io.containerd.cri.v1.images".runtime_platforms.NAME.platform) or in a shorter
/// form ([handlers.NAME] platform = "windows(10.0.20348)/amd64"). Without a configuration, there is
/// only the default handler, for the platform of this host. With --backend, requests for other
/// handlers and for all other services are forwarded to an existing runtime. Prints `ready` once it
/// serves, and stops on Ctrl-C and SIGTERM; an interrupted pull resumes when the kubelet requests it
/// again.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Socket to listen on: unix:///PATH or a path. Only its owner may connect.
    #[arg(long, value_name = "ADDR")]
    #[arg(default_value = "unix:///run/medley/cri.sock")]
    listen: String,

    /// Directory for images, created if missing.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/medley/cri")]
    root: PathBuf,

    /// TOML file with handlers and their platforms: containerd's configuration, or the shorter form.
    /// Can be repeated.
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// Socket of the runtime to forward all other requests to, such as
    /// unix:///run/containerd/containerd.sock.
    #[arg(long, value_name = "ADDR")]
    backend: Option<String>,

    /// Platform of this host, such as linux/arm64/v8.
    /// [default: detected]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,

    /// Size limit of the directory, such as 50Gi. Pulls that would exceed it fail.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    limit: Option<u64>,

    /// Maximum number of concurrent layer downloads across all pulls.
    #[arg(long, value_name = "N", default_value_t = 6)]
    downloads: usize,

    /// Image that the kubelet must not garbage-collect, such as the sandbox image. Can be repeated.
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
    let handlers = handlers(arguments)?;
    // Pods name the images, so this guards against SSRF. Registries on the node itself are common
    // and stay reachable, as they are for containerd; the metadata service of the node does not.
    let addresses = arguments.addresses.policy_with(AddressRange::LOOPBACK);
    let client = arguments.registry.open_small(&addresses)?;
    let keyring = arguments.registry.service_keyring()?;
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
            limit: arguments.limit,
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
    let own = Platform::new("linux", oci::resolve::own_architecture());
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
