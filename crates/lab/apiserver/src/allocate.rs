//! Allocation of unique values: addresses and ports of services.
//!
//! ```text
//! create, or ExternalName to another type:    cluster address, the requested one or the next free one
//! NodePort, LoadBalancer:                     a node port for each port that has none
//! LoadBalancer with local traffic:            a health check port
//! ```

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use machinery::field::{FieldError, Path};
use machinery::meta;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::store::Store;

/// First address of the service network, `10.0.0.0/24` as kube-apiserver's default.
// `DefaultServiceIPCIDR` and `DefaultServiceNodePortRange` in
// `pkg/kubeapiserver/options/options.go`.
const NETWORK: [u8; 3] = [10, 0, 0];
/// Node ports, as kube-apiserver's default.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Values reserved for services that are not stored yet. Admission may take long between allocation
/// and storage, and no lock can be held for that time.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    promised: Mutex<Vec<(u64, Value)>>,
    tickets: AtomicU64,
}

/// Keeps the values allocated for a service until it is stored.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    allocations: &'a Allocations,
    ticket: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut promised = self.allocations.promised.lock();
        promised.retain(|(ticket, _)| *ticket != self.ticket);
    }
}

impl Allocations {
    /// Allocates values for a new or changed service.
    pub(crate) fn allocate(
        &self,
        store: &Store,
        service: &mut Value,
        live: Option<&Value>,
        dry_run: bool,
    ) -> Result<Reservation<'_>, Status> {
        let own = live.map(meta::uid);
        // A reservation is released only after its service is stored, so every value is in one of
        // the two.
        // Held over the read of the store: two services created at once would otherwise both find
        // the same address free.
        let mut promised = self.promised.lock();
        let mut others = Used::of(store, own)?;
        for (_, other) in promised.iter() {
            if own != Some(meta::uid(other)) {
                others.add(other);
            }
        }
        Allocation::new(service, live, others, dry_run).run()?;
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        // A dry run shows an address without reserving it.
        if !dry_run {
            promised.push((ticket, service.clone()));
        }
        Ok(Reservation {
            allocations: self,
            ticket,
        })
    }
}

/// Services are the only kind with allocations.
pub(crate) fn is_service(resource: &Resource) -> bool {
    resource.info.gvk.group.is_empty() && resource.info.gvk.kind == "Service"
}

/// Values used by services.
#[derive(Debug, Default)]
struct Used {
    addresses: HashSet<String>,
    ports: HashSet<i64>,
}

impl Used {
    /// Values of all services except one. Services are few and rarely written: reading them avoids
    /// a second source of truth.
    fn of(store: &Store, except: Option<&str>) -> Result<Self, Status> {
        let page = store
            .list("/registry/services/specs/", Bound::Unbounded, 0, None)
            .map_err(|error| Status::internal(&error.to_string()))?;
        let mut used = Self::default();
        for entry in page.entries {
            // The address of a damaged service can be allocated again.
            if entry.damage().is_some() {
                continue;
            }
            let service = entry
                .object()
                .map_err(|error| Status::internal(&error.to_string()))?;
            if except != Some(meta::uid(&service)) {
                used.add(&service);
            }
        }
        Ok(used)
    }

    fn add(&mut self, service: &Value) {
        self.addresses
            .insert(text(service, "/spec/clusterIP").to_owned());
        self.ports.extend(node_ports(service));
        self.ports.extend(health_port(service));
    }

    /// The first free address after that of the API itself.
    fn free_address(&self) -> Option<String> {
        let [a, b, c] = NETWORK;
        // Address 1 is that of the Service `kubernetes`; 0 and 255 are network and broadcast.
        (2..=254)
            .map(|last| Ipv4Addr::new(a, b, c, last).to_string())
            .find(|ip| !self.addresses.contains(ip))
    }

    fn take_free_port(&mut self) -> Option<i64> {
        let free = NODE_PORTS.clone().find(|port| !self.ports.contains(port))?;
        self.ports.insert(free);
        Some(free)
    }

    /// Takes a requested port. A dry run does not check the range, as upstream.
    fn take_port(&mut self, port: i64, dry_run: bool) -> Result<(), String> {
        if !dry_run && !NODE_PORTS.contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            ));
        }
        if self.ports.insert(port) {
            Ok(())
        } else {
            Err("provided port is already allocated".to_owned())
        }
    }
}

fn text<'a>(service: &'a Value, pointer: &str) -> &'a str {
    service
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn ports(service: &Value) -> &[Value] {
    service
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn number(port: &Value, field: &str) -> i64 {
    port.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    ports(service)
        .iter()
        .map(|port| number(port, "nodePort"))
        .filter(|port| *port != 0)
}

fn health_port(service: &Value) -> Option<i64> {
    service
        .pointer("/spec/healthCheckNodePort")
        .and_then(Value::as_i64)
        .filter(|port| *port != 0)
}

fn kind(service: &Value) -> &str {
    text(service, "/spec/type")
}

fn needs_health_port(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
}

/// The allocation for one service.
struct Allocation<'a> {
    service: &'a mut Value,
    old: Option<&'a Value>,
    used: Used,
    dry_run: bool,
}

impl<'a> Allocation<'a> {
    fn new(service: &'a mut Value, old: Option<&'a Value>, used: Used, dry_run: bool) -> Self {
        Self {
            service,
            old,
            used,
            dry_run,
        }
    }

    fn run(mut self) -> Result<(), Status> {
        if kind(self.service) == "ExternalName" {
            return Ok(());
        }
        if self.old.is_none_or(|old| kind(old) == "ExternalName") {
            self.address()?;
        }
        if matches!(kind(self.service), "NodePort" | "LoadBalancer") {
            self.node_ports()?;
        }
        if needs_health_port(self.service) && !self.old.is_some_and(needs_health_port) {
            self.health_port()?;
        }
        Ok(())
    }

    fn refuse(&self, path: &Path, value: impl Into<Value>, why: impl Into<String>) -> Status {
        let error = FieldError::invalid(path, value, why);
        Status::invalid_as("", "Service", meta::name(self.service), &[error])
    }

    fn address(&mut self) -> Result<(), Status> {
        let given = text(self.service, "/spec/clusterIP").to_owned();
        if given == "None" {
            return Ok(());
        }
        if given.is_empty() {
            let free = self.used.free_address().ok_or_else(|| {
                Status::internal(&format!(
                    "failed to allocate a serviceIP for Service {}: range is full",
                    machinery::json::go_quote(meta::name(self.service))
                ))
            })?;
            self.service["spec"]["clusterIP"] = free.as_str().into();
            self.service["spec"]["clusterIPs"] = json!([free]);
            return Ok(());
        }
        // Invalid addresses and other families are reported by validation.
        let Ok(address) = given.parse::<Ipv4Addr>() else {
            return Ok(());
        };
        let [a, b, c] = NETWORK;
        let why = if address.octets()[..3] != NETWORK || matches!(address.octets()[3], 0 | 255) {
            format!(
                "the provided IP ({given}) is not in the valid range. The range of valid IPs is \
                 {a}.{b}.{c}.0/24"
            )
        } else if self.used.addresses.contains(&given) {
            "provided IP is already allocated".to_owned()
        } else {
            return Ok(());
        };
        let path = Path::new("spec").child("clusterIPs");
        let why = format!("failed to allocate IP {given}: {why}");
        Err(self.refuse(&path, json!([given]), why))
    }

    fn node_ports(&mut self) -> Result<(), Status> {
        let chooses = self
            .service
            .pointer("/spec/allocateLoadBalancerNodePorts")
            .and_then(Value::as_bool)
            != Some(false);
        let kept: HashSet<i64> = self
            .old
            .map(|old| node_ports(old).collect())
            .unwrap_or_default();
        // The service's own ports were left out of `used`, so that it may keep them; they must
        // still not be given to its new ports.
        self.used.ports.extend(&kept);
        // A new service has one node port per port number, independent of the protocol.
        let mut by_port: HashMap<i64, i64> = HashMap::new();
        let mut taken = kept;
        for index in 0..ports(self.service).len() {
            let port = &ports(self.service)[index];
            let (service_port, mut wanted) = (number(port, "port"), number(port, "nodePort"));
            if wanted == 0 && !chooses {
                continue;
            }
            if wanted == 0 && self.old.is_none() {
                let requested = ports(self.service)
                    .iter()
                    .find(|port| {
                        number(port, "port") == service_port && number(port, "nodePort") != 0
                    })
                    .map(|port| number(port, "nodePort"));
                wanted = requested
                    .or_else(|| by_port.get(&service_port).copied())
                    .unwrap_or_default();
            }
            if wanted == 0 {
                wanted = self.used.take_free_port().ok_or_else(|| {
                    Status::internal("failed to allocate a nodePort: range is full")
                })?;
            } else if !taken.contains(&wanted) {
                let path = Path::new("spec")
                    .child("ports")
                    .index(index)
                    .child("nodePort");
                self.used
                    .take_port(wanted, self.dry_run)
                    .map_err(|why| self.refuse(&path, wanted, why))?;
            }
            taken.insert(wanted);
            by_port.insert(service_port, wanted);
            self.service["spec"]["ports"][index]["nodePort"] = wanted.into();
        }
        Ok(())
    }

    fn health_port(&mut self) -> Result<(), Status> {
        if let Some(port) = health_port(self.service) {
            return self.used.take_port(port, self.dry_run).map_err(|why| {
                Status::internal(&format!(
                    "failed to allocate requested HealthCheck NodePort {port}: {why}"
                ))
            });
        }
        let free = self.used.take_free_port().ok_or_else(|| {
            Status::internal("failed to allocate a HealthCheck NodePort 0: range is full")
        })?;
        self.service["spec"]["healthCheckNodePort"] = free.into();
        Ok(())
    }
}
