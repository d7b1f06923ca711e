//! How far pods are: they are asked for their metrics.

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

/// How often is asked.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long a pod may take to answer. Some never can: a network policy may be in the way.
const PATIENCE: Duration = Duration::from_secs(1);
/// No answer is longer.
const LONGEST: u64 = 64 << 10;

/// Asks pods that import for as long as it runs; DataVolumes whose import got on go into a queue.
pub(super) async fn follow(
    pods: Cache<Pod>,
    addresses: AddressPolicy,
    progress: Arc<Mutex<HashMap<String, u16>>>,
    volumes: Queue<Key>,
) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let running: Vec<_> = pods.list().iter().filter_map(|it| running(it)).collect();
        // Pods and their status may be written by tenants: a pod with an owner reference is not proof of an
        // importer of ours.
        let running = running
            .into_iter()
            .filter(|(_, _, address)| addresses.check(*address).is_ok());
        let mut asked = JoinSet::new();
        for (uid, volume, address) in running {
            asked.spawn(async move {
                let said = tokio::time::timeout(PATIENCE, ask(address)).await;
                (uid, volume, said.ok().flatten())
            });
        }
        let mut answers = HashMap::new();
        while let Some(answer) = asked.join_next().await {
            let Ok((uid, volume, Some(parts))) = answer else {
                continue;
            };
            if progress.lock().get(&uid) != Some(&parts) {
                volumes.add(volume);
            }
            answers.insert(uid, parts);
        }
        *progress.lock() = answers;
    }
}

/// A pod that imports, and where it answers.
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

async fn ask(address: SocketAddr) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await.ok()?;
    pod::progress(&String::from_utf8_lossy(&answer))
}
