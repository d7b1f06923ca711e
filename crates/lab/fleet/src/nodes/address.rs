//! Addresses of nodes and pods: one number per node determines both.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Node, NodeAddress};
use runtime::Error;

/// Pod addresses are in 10.128.0.0/9, 256 for each node.
const PODS: u32 = u32::from_be_bytes([10, 128, 0, 0]);
/// First node address.
const NODES: u32 = u32::from_be_bytes([172, 16, 0, 10]);
/// Maximum number of nodes: the pod range holds that many /24 ranges.
pub(crate) const CAPACITY: u32 = 1 << 15;
/// Maximum number of pods on a node: the first addresses of its range and the last are reserved.
pub(crate) const PODS_PER_NODE: i64 = 250;

/// Node numbers in use.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    numbers: HashMap<String, u32>,
    used: BTreeSet<u32>,
    /// All numbers below this one are in use.
    full_below: u32,
}

impl Addresses {
    /// Records the number of a node that has addresses already.
    pub(crate) fn learn(&mut self, node: &Node) {
        let Some(number) = number_of(node) else {
            return;
        };
        let name = node.metadata.name.clone().unwrap_or_default();
        self.used.insert(number);
        self.numbers.insert(name, number);
    }

    /// Frees the number of a deleted node.
    pub(crate) fn release(&mut self, node: &Node) {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        if let Some(number) = self.numbers.remove(name) {
            self.used.remove(&number);
            // The search starts there, so that registering thousands of nodes is not quadratic.
            self.full_below = self.full_below.min(number);
        }
    }

    /// Returns the number of a node, allocating the lowest free one if it has none.
    pub(crate) fn assign(&mut self, name: &str) -> Result<u32, Error> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let free = (self.full_below..CAPACITY).find(|number| !self.used.contains(number));
        let free = free.ok_or_else(|| {
            Error::Invalid(format!(
                "node {name} gets no address: all {CAPACITY} are in use"
            ))
        })?;
        self.used.insert(free);
        self.full_below = free + 1;
        self.numbers.insert(name.to_owned(), free);
        Ok(free)
    }
}

/// Sets the addresses that follow from a node's number. An existing pod range is kept.
pub(crate) fn place(node: &mut Node, number: u32) {
    let name = node.metadata.name.clone().unwrap_or_default();
    let spec = node.spec.get_or_insert_default();
    if spec.pod_cidr.is_none() {
        let range = format!("{}/24", Ipv4Addr::from(PODS + (number << 8)));
        spec.pod_cidrs = Some(vec![range.clone()]);
        spec.pod_cidr = Some(range);
    }
    let status = node.status.get_or_insert_default();
    if status.addresses.as_ref().is_none_or(Vec::is_empty) {
        let address = |kind: &str, address: String| NodeAddress {
            type_: kind.to_owned(),
            address,
        };
        status.addresses = Some(vec![
            address("InternalIP", Ipv4Addr::from(NODES + number).to_string()),
            address("Hostname", name),
        ]);
    }
}

/// The number encoded in a node's pod range.
pub(super) fn number_of(node: &Node) -> Option<u32> {
    let range = node.spec.as_ref()?.pod_cidr.as_deref()?;
    let first: Ipv4Addr = range.strip_suffix("/24")?.parse().ok()?;
    let number = u32::from(first).checked_sub(PODS)? >> 8;
    (number < CAPACITY).then_some(number)
}

/// The addresses available to pods of a node, in order.
pub(crate) fn pod_addresses(node: &Node) -> Option<impl Iterator<Item = Ipv4Addr> + use<>> {
    let range = node.spec.as_ref()?.pod_cidr.as_deref()?;
    let (first, length) = range.split_once('/')?;
    let first: Ipv4Addr = first.parse().ok()?;
    let length: u32 = length.parse().ok().filter(|length| *length <= 30)?;
    let size = 1_u64.checked_shl(32 - length)?;
    let last = u32::try_from(size.checked_sub(2)?).ok()?;
    // The first address is the network, the second its gateway, the last the broadcast address.
    Some((2..=last).map(move |offset| Ipv4Addr::from(u32::from(first).wrapping_add(offset))))
}

/// The address of a node.
pub(crate) fn of_node(node: &Node) -> Option<&str> {
    let addresses = node.status.as_ref()?.addresses.as_deref()?;
    addresses
        .iter()
        .find(|address| address.type_ == "InternalIP")
        .map(|address| address.address.as_str())
}
