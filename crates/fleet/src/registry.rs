//! A registry on this machine with images that are made here: boot disks for three architectures, so
//! that imports, updates and roll-backs can be seen without any network, and applications that not every
//! node can run.
//!
//! ```text
//! ConfigMap kube-system/medley-registry --holdings--> revisions of images --library--> layers,
//!         ^                                            configs, manifests --answer--> clients
//! `medley fleet publish`
//! ```
//!
//! What there is follows from the revisions that are written down in the cluster: nothing else is
//! stored, and after a restart everything has the digests it had.

mod answer;
mod apps;
mod catalog;
mod disk;
mod holdings;
mod image;
mod library;
mod machines;
mod qcow2;
mod range;
mod serve;
mod state;
mod templates;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use chassis::{Error, Manager};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use tokio::net::TcpListener;
use tracing::warn;

pub use apps::{APPS, App, TAG as APP_TAG};
pub use catalog::{Architecture, IMAGES, Image, UnknownArchitecture, image};
pub use holdings::{HoldingsError, KEPT, Publication, Revision, Revisions, Version};
pub use machines::machine_templates;
pub use state::{CONFIG_MAP, NAMESPACE, publish};
pub use templates::templates;

use holdings::Holdings;
use library::Library;

/// Starts the registry, which runs until the manager stops, and tells the cluster where it is:
/// templates of boot images point to it, and importers are told that it has no TLS. Says its address,
/// which is the same as last time if nobody else has taken it.
pub async fn start(manager: &Manager, client: &Client) -> Result<SocketAddr, Error> {
    let before = state::read(client).await?;
    let listener = bind(before.as_ref().and_then(state::address)).await?;
    let address = listener
        .local_addr()
        .map_err(|error| Error::Invalid(format!("asking for the own address: {error}")))?;
    let old = before.as_ref().and_then(state::address);
    let map = state::begin(client, before, address).await?;
    let library = Arc::new(Library::new(read(&map, None)));
    follow(manager, &library);
    manager.spawn(serve::listen(listener, library));
    templates::offer(client, address).await?;
    state::trust(client, old, address).await?;
    Ok(address)
}

/// The old place, or any that is free.
async fn bind(old: Option<SocketAddr>) -> Result<TcpListener, Error> {
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

/// Has the registry hold what is written down, from now on.
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
        warn!(%error, "what the registry is to hold makes no sense; that stays as it was");
    })
}
