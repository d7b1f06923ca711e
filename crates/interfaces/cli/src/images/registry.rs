//! Registry clients and their credentials.

mod helper;

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use egress::ProxySettings;
use golden_images::cdi::pod::environment;
use oci::{
    Client, Credential, HelperEntry, Hosts, Keyring, Network, Origin, Registries, Roots, Routes,
    Settings, Tls,
};
use platform::{AddressPolicy, AddressRange, Source};

use crate::output::remark;

/// Size limit of files with credentials or certificates.
// A path such as `/dev/zero` must not exhaust the memory; files of this kind have kilobytes.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Cache size in bytes for importer pods, which have little memory. Manifests and configs of an
/// image have some kilobytes.
pub(crate) const SMALL_CACHE: u64 = 4 << 20;

/// How to reach registries.
#[derive(Debug, Args)]
pub(crate) struct RegistryArguments {
    /// File with registry credentials, as docker, podman and skopeo write it.
    /// [default: containers/auth.json in $XDG_RUNTIME_DIR, then ~/.docker/config.json]
    #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
    authfile: Option<PathBuf>,

    #[command(flatten)]
    network: NetworkArguments,
}

/// How to reach registries, without credentials. Proxies are read from the environment.
#[derive(Debug, Args)]
pub(crate) struct NetworkArguments {
    /// Registry to connect to without verifying its certificate, or over plain HTTP. Can be
    /// repeated.
    #[arg(long, value_name = "HOST[:PORT]", env = "MEDLEY_INSECURE")]
    #[arg(value_delimiter = ',')]
    insecure: Vec<String>,

    /// File with CA certificates, in PEM, to trust besides those of the system, or a directory of
    /// such files, which may be empty.
    #[arg(long, value_name = "FILE", env = "MEDLEY_CA")]
    ca: Option<PathBuf>,

    /// Mirror configuration: a registries.conf, a hosts.toml in a directory named after its
    /// registry, or the parent of such directories.
    #[arg(long, value_name = "FILE", env = "MEDLEY_MIRRORS")]
    mirrors: Option<PathBuf>,
}

/// Restricted addresses that a server process may connect to.
#[derive(Debug, Default, Args)]
pub(crate) struct AddressArguments {
    /// Restricted address (loopback, link-local, cloud metadata) that registries and web servers
    /// named in objects may resolve to: 192.0.2.0/24, 192.0.2.7 or 192.0.2.7:5000. Can be repeated.
    #[arg(long, value_name = "CIDR", env = environment::ALLOWED)]
    #[arg(value_delimiter = ',')]
    allow_address: Vec<AddressRange>,
}

impl AddressArguments {
    /// The default restrictions, except for the addresses the administrator allows.
    pub(crate) fn policy(&self) -> AddressPolicy {
        self.policy_with([])
    }

    /// The same, with ranges that the program itself needs.
    pub(crate) fn policy_with(&self, own: impl IntoIterator<Item = AddressRange>) -> AddressPolicy {
        AddressPolicy::allowing(self.allow_address.iter().copied().chain(own))
    }
}

impl RegistryArguments {
    /// A client for an image.
    pub(crate) fn client(&self, source: &Source) -> anyhow::Result<Client> {
        let is_local = matches!(source, Source::Archive(_) | Source::Folder(_));
        let network = &self.network;
        for (given, name) in [(&network.ca, "--ca"), (&network.mirrors, "--mirrors")] {
            ensure!(
                !is_local || given.is_none(),
                "{name} applies to registries and web servers, but {source} is local"
            );
        }
        self.open()
    }

    /// A client for any registry, with the credentials of the current user.
    pub(crate) fn open(&self) -> anyhow::Result<Client> {
        self.network.open_with(Settings::for_user)
    }

    /// A client for registries that objects in the cluster name, with [`SMALL_CACHE`], for a process with little memory:
    /// documents of hostile images have megabytes.
    pub(crate) fn open_small(&self, addresses: &AddressPolicy) -> anyhow::Result<Client> {
        self.network.open_with(|roots| {
            let mut settings = Settings::for_service(roots, addresses.clone());
            settings.cache_bytes = SMALL_CACHE;
            settings
        })
    }

    /// Registries to inspect the images of pods in. The credentials are those of nodes: used for
    /// every pod, besides its own pull secrets.
    pub(crate) fn registries(
        &self,
        addresses: &AddressPolicy,
    ) -> anyhow::Result<controllers::Registries> {
        let keyring = self.service_keyring()?;
        let client = self.network.open_service(addresses)?;
        let keyring = Keyring::clone(&keyring);
        Ok(controllers::Registries::new(client, keyring))
    }

    /// All configured credentials of a user, with those that credential helpers return.
    pub(crate) fn keyring(&self) -> anyhow::Result<Arc<Keyring>> {
        self.keyring_with(|_| true)
    }

    /// The credentials of a user for one image: helpers of other registries are not run, because some take a second.
    pub(crate) fn keyring_for(&self, source: &Source) -> anyhow::Result<Arc<Keyring>> {
        let host = source.host();
        // A mirror has a name of its own.
        let any = self.network.mirrors.is_some();
        self.keyring_with(|entry| {
            any || host.as_deref().is_some_and(|host| {
                let only = Keyring::for_host(&entry.registry, Credential::password("", ""));
                !only.find(host, "").is_empty()
            })
        })
    }

    fn keyring_with(&self, wanted: impl Fn(&HelperEntry) -> bool) -> anyhow::Result<Arc<Keyring>> {
        let mut keyring = Keyring::anonymous();
        let Some((path, bytes)) = self.config()? else {
            return Ok(Arc::new(keyring));
        };
        let what = || format!("reading credentials from {}", path.display());
        let mut entries = oci::helper_entries(&bytes).with_context(what)?;
        entries.retain(wanted);
        // Before the entries of the file, which are older: a helper takes their place.
        helper::add_credentials(&mut keyring, &entries);
        keyring
            .add_docker_config(&bytes, Origin::File)
            .with_context(what)?;
        Ok(Arc::new(keyring))
    }

    /// The credentials of a process that runs for longer than the tokens that credential helpers return.
    pub(crate) fn service_keyring(&self) -> anyhow::Result<Arc<Keyring>> {
        let mut keyring = Keyring::anonymous();
        if let Some((path, bytes)) = self.config()? {
            let what = || format!("reading credentials from {}", path.display());
            keyring
                .add_docker_config(&bytes, Origin::File)
                .with_context(what)?;
            if let Some(entry) = oci::helper_entries(&bytes).with_context(what)?.first() {
                tracing::warn!(
                    file = %path.display(),
                    registry = entry.registry,
                    helper = entry.helper,
                    "credential helpers are not run by a service; use pull secrets for these registries"
                );
            }
        }
        Ok(Arc::new(keyring))
    }

    /// The configuration with credentials: `--authfile`, or the first usual file that exists. containers/image would search
    /// each of them for the registry; `--authfile` names another file where that matters.
    fn config(&self) -> anyhow::Result<Option<(PathBuf, Vec<u8>)>> {
        let read = |path: PathBuf| -> anyhow::Result<(PathBuf, Vec<u8>)> {
            let what = || format!("reading credentials from {}", path.display());
            let bytes = read(&path).with_context(what)?;
            Ok((path, bytes))
        };
        if let Some(path) = &self.authfile {
            return read(path.clone()).map(Some);
        }
        for path in usual() {
            match read(path) {
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(error.context("--authfile FILE names another file")),
                Ok(found) => return Ok(Some(found)),
            }
        }
        Ok(None)
    }
}

impl NetworkArguments {
    /// A client for registries that objects in the cluster name.
    pub(crate) fn open_service(&self, addresses: &AddressPolicy) -> anyhow::Result<Client> {
        self.open_with(|roots| Settings::for_service(roots, addresses.clone()))
    }

    fn open_with(&self, settings: impl FnOnce(Roots) -> Settings) -> anyhow::Result<Client> {
        let mut roots = Roots::of_system();
        if let Some(path) = &self.ca {
            for path in certificate_files(path)? {
                let what = || format!("reading the certificates in {}", path.display());
                let pem = read(&path).with_context(what)?;
                let all = Tls::authorities(&pem).and_then(|tls| roots.and(&tls));
                roots = all.map_err(anyhow::Error::msg).with_context(what)?;
            }
        }
        let mut routes = match &self.mirrors {
            Some(path) => routes(path)?,
            None => Routes::direct(),
        };
        for host in &self.insecure {
            ensure!(
                !host.is_empty() && !host.contains(['/', ' ']),
                "--insecure {host:?} is not a registry; expected HOST or HOST:PORT"
            );
            routes = routes.with_insecure(host);
        }
        let network = Network {
            routes,
            proxies: ProxySettings::from_env()?,
            ..Network::default()
        };
        Ok(Client::new(settings(roots), network))
    }
}

/// Adds the mirrors, the image settings and the CA certificates of a cluster to those of the command, which take precedence.
/// Not its proxy: the workstation may be in another network, and the environment has its own. What cannot be used is a
/// warning.
pub(crate) async fn use_network_of(
    cluster: &kube::Client,
    registries: &Client,
) -> anyhow::Result<()> {
    let own = registries.network();
    let read = cluster_view::network::read(cluster).await;
    let (mut network, problems) = read
        .context("reading the mirrors of the cluster")?
        .over(&own);
    for problem in problems {
        remark(&format!("warning: {problem}"));
    }
    network.proxies = own.proxies.clone();
    registries.set_network(network);
    Ok(())
}

/// The files that `--ca` names. Of a directory, those that are not hidden: the kubelet keeps the files of a ConfigMap in
/// hidden directories, with links to them. It is empty where an optional ConfigMap does not exist.
fn certificate_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let what = || format!("reading the directory {} of --ca", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(what)? {
        let entry = entry.with_context(what)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    // One order, so that one wrong file is the one that every start names.
    files.sort();
    Ok(files)
}

/// Parses a mirror configuration of either format.
fn routes(path: &Path) -> anyhow::Result<Routes> {
    let direct = Routes::direct();
    let what = || format!("--mirrors {}", path.display());
    if path.is_dir() {
        return Ok(direct.with_hosts(Hosts::load(path).with_context(what)?));
    }
    if path.file_name().is_some_and(|name| name == "hosts.toml") {
        // The directory name is the registry, as in containerd's hosts.toml layout.
        let path = path.canonicalize().with_context(what)?;
        let folder = path.parent().unwrap_or(&path);
        return Ok(direct.with_hosts(Hosts::load_one(folder).with_context(what)?));
    }
    let text = read(path).with_context(what)?;
    let text = String::from_utf8(text).with_context(what)?;
    let name = path.display().to_string();
    let registries = Registries::read([(name.as_str(), text.as_str())]);
    let registries = registries
        .context("expected a registries.conf, a hosts.toml, or a directory")
        .with_context(what)?;
    Ok(direct.with_registries(registries))
}

/// Default paths of credentials.
fn usual() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.map(|folder| folder.join("containers/auth.json"));
    let home = std::env::home_dir().map(|home| home.join(".docker/config.json"));
    let paths = runtime.into_iter().chain(home);
    paths.filter(|path| path.is_absolute()).collect()
}

fn is_missing(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
