//! Progress of importer pods, scraped from their metrics.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use golden_images::cdi::pod;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use platform::AddressPolicy;
use runtime::{Cache, Key, Queue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::volume_of;

/// Scrape interval.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout of a scrape. Some pods never answer, because of a network policy.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of a response; an importer has a few metrics.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// Scrapes importer pods for ever; enqueues DataVolumes whose import progressed.
pub(super) async fn follow(
    pods: Cache<Pod>,
    addresses: AddressPolicy,
    progress: Arc<Mutex<HashMap<String, u16>>>,
    volumes: Queue<Key>,
) {
    loop {
        tokio::time::sleep(SCRAPE_INTERVAL).await;
        let running: Vec<_> = pods.list().iter().filter_map(|it| running(it)).collect();
        // Tenants can write pods and their status: a pod with our owner reference need not be an importer of ours, so
        // the address is checked below.
        let running = running
            .into_iter()
            .filter(|(_, _, address)| addresses.check(*address).is_ok());
        let mut scrapes = JoinSet::new();
        for (uid, volume, address) in running {
            scrapes.spawn(async move {
                let response = tokio::time::timeout(SCRAPE_TIMEOUT, scrape(address)).await;
                (uid, volume, response.ok().flatten())
            });
        }
        let mut scraped = HashMap::new();
        while let Some(result) = scrapes.join_next().await {
            let Ok((uid, volume, Some(parts))) = result else {
                continue;
            };
            if progress.lock().get(&uid) != Some(&parts) {
                volumes.add(volume);
            }
            scraped.insert(uid, parts);
        }
        *progress.lock() = scraped;
    }
}

/// A running importer pod and the address of its metrics.
fn running(pod: &Pod) -> Option<(String, Key, SocketAddr)> {
    let volume = volume_of(pod)?;
    let status = pod.status.as_ref()?;
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let address: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
    let address = SocketAddr::new(address, pod::METRICS_PORT);
    Some((pod.metadata.uid.clone()?, volume, address))
}

async fn scrape(address: SocketAddr) -> Option<u16> {
    // By hand rather than with an HTTP client: one request for a few lines of text, to an address that was checked.
    // CDI's controller scrapes its importers in the same way.
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut result = Vec::new();
    stream
        .take(MAX_RESPONSE_BYTES)
        .read_to_end(&mut result)
        .await
        .ok()?;
    pod::progress(&String::from_utf8_lossy(&result))
}
