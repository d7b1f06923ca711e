//! Allocation of pod IP addresses.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::nodes::address::pod_addresses;
use crate::scheduler::is_over;

/// The addresses of pods, by node.
#[derive(Debug, Default)]
pub(super) struct PodAddresses {
    used: HashMap<String, HashMap<Ipv4Addr, String>>,
    of: HashMap<String, (String, Ipv4Addr)>,
}

impl PodAddresses {
    /// Records the address of a pod, or frees it once the pod has terminated.
    pub(super) fn learn(&mut self, pod: &Pod) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if is_over(pod) {
            self.release(uid);
            return;
        }
        let spec = pod.spec.as_ref();
        let node = spec.and_then(|spec| spec.node_name.clone());
        let status = pod.status.as_ref();
        let address = status.and_then(|status| status.pod_ip.as_deref()?.parse().ok());
        if let (Some(node), Some(address), false) = (
            node,
            address,
            spec.is_some_and(|spec| spec.host_network == Some(true)),
        ) {
            self.take(&node, address, uid);
        }
    }

    fn take(&mut self, node: &str, address: Ipv4Addr, uid: &str) {
        let used = self.used.entry(node.to_owned()).or_default();
        used.insert(address, uid.to_owned());
        self.of.insert(uid.to_owned(), (node.to_owned(), address));
    }

    /// Returns the address of a pod on a node, allocating a free one if it has none.
    pub(super) fn assign(&mut self, node: &Node, uid: &str) -> Option<String> {
        if let Some((_, address)) = self.of.get(uid) {
            return Some(address.to_string());
        }
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let used = self.used.entry(name.to_owned()).or_default();
        let free = pod_addresses(node)?.find(|address| !used.contains_key(address))?;
        self.take(name, free, uid);
        Some(free.to_string())
    }

    /// Frees the address of a deleted pod.
    pub(super) fn release(&mut self, uid: &str) {
        if let Some((node, address)) = self.of.remove(uid)
            && let Some(used) = self.used.get_mut(&node)
        {
            used.remove(&address);
        }
    }
}
