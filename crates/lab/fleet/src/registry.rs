//! A registry on localhost with generated images: boot disks for three architectures, so that
//! imports, updates and rollbacks work without a network; applications that not every node can run;
//! and the images of releases, so that their platforms can be inspected.
//!
//! ```text
//! ConfigMap kube-system/medley-registry --holdings--> revisions of images --library--> layers,
//!         ^                                            configs, manifests --answer--> clients
//! `medley fleet publish`
//! ```
//!
//! The content follows from the revisions in the ConfigMap; nothing else is stored, and after a
//! restart all digests are the same.

mod answer;
mod apps;
mod catalog;
mod component;
mod disk;
mod holdings;
mod image;
mod library;
mod machines;
mod qcow2;
mod range;
mod serve;
mod state;
mod tar;
mod templates;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use runtime::{Error, Manager};
use tokio::net::TcpListener;
use tracing::warn;

pub use apps::{APPS, App, TAG as APP_TAG};
pub use catalog::{Architecture, IMAGES, Image, UnknownArchitecture, image};
pub use holdings::{HoldingsError, MAX_REVISIONS, Publication, Revision, Revisions, Version};
pub use machines::machine_templates;
pub use state::{CONFIG_MAP, NAMESPACE, publish};
pub use templates::templates;

pub(crate) use component::StaticImage;
pub(crate) use image::Published as Component;

use holdings::Holdings;
use library::Library;

/// A registry with a bound socket that does not serve yet.
pub(crate) struct Opened {
    before: Option<ConfigMap>,
    listener: TcpListener,
    /// Its address.
    pub(crate) address: SocketAddr,
}

impl Opened {
    /// Binds a socket: the address of the last run if it is free.
    pub(crate) async fn new(client: &Client) -> Result<Self, Error> {
        let before = state::read(client).await?;
        let listener = bind(before.as_ref().and_then(state::address)).await?;
        let address = listener
            .local_addr()
            .map_err(|error| Error::Invalid(format!("get the listener address: {error}")))?;
        Ok(Self {
            before,
            listener,
            address,
        })
    }

    /// Serves until the manager stops, including the shelved images. With boot images it also
    /// publishes the address in the cluster: templates point here, and importers get the registry
    /// as an insecure one.
    pub(crate) async fn start(
        self,
        manager: &Manager,
        client: &Client,
        mut shelf: Vec<StaticImage>,
        boot_images: bool,
    ) -> Result<(), Error> {
        let old = self.before.as_ref().and_then(state::address);
        let map = state::begin(client, self.before, self.address).await?;
        let apps = apps::shelved();
        shelf.extend(
            apps.map_err(|error| Error::Invalid(format!("build the application images: {error}")))?,
        );
        let library = Arc::new(Library::new(read(&map, None), shelf));
        follow(manager, &library);
        manager.spawn(serve::listen(self.listener, library));
        if boot_images {
            templates::offer(client, self.address).await?;
            state::trust(client, old, self.address).await?;
        }
        Ok(())
    }
}

/// Starts a registry of boot images, which runs until the manager stops. Returns its address, that
/// of the last run if it is free.
pub async fn start(manager: &Manager, client: &Client) -> Result<SocketAddr, Error> {
    let opened = Opened::new(client).await?;
    let address = opened.address;
    opened.start(manager, client, Vec::new(), true).await?;
    Ok(address)
}

/// Binds the old address, or any free port.
async fn bind(old: Option<SocketAddr>) -> Result<TcpListener, Error> {
    // Pods and templates contain the address of the last run, so that another port is the second
    // choice.
    if let Some(old) = old
        && let Ok(listener) = TcpListener::bind(old).await
    {
        return Ok(listener);
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(|error| {
            Error::Invalid(format!(
                "listening on a free port of 127.0.0.1 for the registry: {error}"
            ))
        })
}

/// Watches the ConfigMap of revisions and updates the registry.
fn follow(manager: &Manager, library: &Arc<Library>) {
    let library = Arc::clone(library);
    manager.cache::<ConfigMap>().on_change(move |change| {
        if let Some(map) = &change.new
            && state::is_state(map)
        {
            let before = library.holdings();
            library.hold(read(map, Some(&before)));
        }
    });
}

fn read(map: &ConfigMap, before: Option<&Holdings>) -> Holdings {
    let data = map.data.clone().unwrap_or_default();
    Holdings::read(&data, before, |error| {
        warn!(%error, "invalid image revisions; keeping the previous ones");
    })
}
