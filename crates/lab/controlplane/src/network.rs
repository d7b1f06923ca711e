//! Endpoints of services.
//!
//! Three controllers, as in kube-controller-manager: EndpointSlices and legacy Endpoints of services
//! with a selector, and slices that mirror user-managed Endpoints of services without one.
//!
//! ```text
//! Service, Pods, Nodes   --> slices     --> EndpointSlices (endpointslice-controller.k8s.io)
//! Service, Pods          --> endpoints  --> Endpoints
//! user-managed Endpoints --> mirror     --> EndpointSlices (endpointslicemirroring-controller.k8s.io)
//! ```
//!
//! Two features of kube-controller-manager are left out: the annotation with the time of the last
//! change trigger, which only measures latencies, and hints that distribute zones by their CPUs
//! (`topology-mode: Auto`), which `trafficDistribution` replaces.

mod backends;
mod controllers;
mod endpoints;
mod mirror;
mod slices;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use runtime::{Cache, Change, Index, Key, Manager, Queue, Writer};

use crate::object::{label, name, namespace};
use crate::pod::node_name;
use controllers::{EndpointsController, MirrorController, SliceController};

/// Batch window of pod changes: without it a rollout of a thousand pods would be a thousand writes
/// of a thousand addresses each.
const BATCH_WINDOW: Duration = Duration::from_millis(50);
const WORKERS: usize = 5;

/// Caches shared by the controllers.
#[derive(Clone)]
struct Caches {
    services: Cache<Service>,
    pods: Cache<Pod>,
    pods_by_label: Index<Pod>,
    nodes: Cache<Node>,
    endpoints: Cache<Endpoints>,
    slices: Cache<EndpointSlice>,
    slices_by_service: Index<EndpointSlice>,
    slice_writer: Writer<EndpointSlice>,
}

/// The queues of the three controllers, keyed by service.
#[derive(Clone)]
struct Queues {
    slices: Queue<Key>,
    endpoints: Queue<Key>,
    mirror: Queue<Key>,
}

/// Starts the three controllers.
pub async fn start(manager: &Manager) {
    let caches = Caches::new(manager);
    let queues = Queues {
        slices: Queue::new(),
        endpoints: Queue::new(),
        mirror: Queue::new(),
    };
    subscribe(&caches, &queues, manager);
    tokio::join!(
        caches.services.synced(),
        caches.pods.synced(),
        caches.nodes.synced(),
        caches.endpoints.synced(),
        caches.slices.synced(),
    );
    let slices = SliceController {
        caches: caches.clone(),
        events: manager.events("endpoint-slice-controller"),
    };
    let endpoints = EndpointsController {
        writer: Writer::namespaced(manager.client()).shown_by(&caches.endpoints),
        caches: caches.clone(),
        events: manager.events("endpoint-controller"),
    };
    let mirror = MirrorController {
        caches,
        events: manager.events("endpoint-slice-mirroring-controller"),
    };
    manager.start(slices, &queues.slices, WORKERS);
    manager.start(endpoints, &queues.endpoints, WORKERS);
    manager.start(mirror, &queues.mirror, WORKERS);
}

impl Caches {
    fn new(manager: &Manager) -> Self {
        let pods = manager.cache::<Pod>();
        let slices = manager.cache::<EndpointSlice>();
        Self {
            services: manager.cache(),
            pods_by_label: pods.index(label_terms),
            pods,
            nodes: manager.cache(),
            endpoints: manager.cache(),
            slices_by_service: slices.index(|slice| {
                let service = slice_service(slice).map(|key| key.to_string());
                service.into_iter().collect()
            }),
            slice_writer: Writer::namespaced(manager.client()).shown_by(&slices),
            slices,
        }
    }

    /// The pods a service selects.
    fn pods_of(&self, namespace: &str, service: &Service) -> Vec<Arc<Pod>> {
        let Some(selector) = backends::selector(service) else {
            return Vec::new();
        };
        let Some((key, value)) = selector.iter().next() else {
            return Vec::new();
        };
        let mut pods = self.pods_by_label.find(&term(namespace, key, value));
        pods.retain(|pod| backends::selects(selector, pod));
        pods
    }

    /// The slices of a service that one controller manages.
    fn slices_of(&self, service: &Key, manager: &str) -> Vec<Arc<EndpointSlice>> {
        let mut slices = self.slices_by_service.find(&service.to_string());
        slices.retain(|slice| {
            slices::managed_by(slice) == Some(manager)
                && slice.metadata.deletion_timestamp.is_none()
        });
        slices
    }
}

fn term(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

fn label_terms(pod: &Pod) -> Vec<String> {
    let labels = pod.metadata.labels.iter().flatten();
    labels
        .map(|(key, value)| term(namespace(&pod.metadata), key, value))
        .collect()
}

fn slice_service(slice: &EndpointSlice) -> Option<Key> {
    let name = label(&slice.metadata, slices::SERVICE_NAME)?;
    Some(Key::new(slice.metadata.namespace.clone()?, name))
}

fn subscribe(caches: &Caches, queues: &Queues, manager: &Manager) {
    for queue in [&queues.slices, &queues.endpoints, &queues.mirror] {
        queue.enqueue_objects(&caches.services);
    }
    for queue in [&queues.endpoints, &queues.mirror] {
        queue.enqueue_objects(&caches.endpoints);
    }
    // Of all changes those of pods are the most: their services are looked up once for both queues.
    let (services, to) = (caches.services.clone(), queues.clone());
    caches.pods.on_change(move |change| {
        if !backends::concerns_services(change) {
            return;
        }
        for key in services_of(&services, change) {
            to.slices.add_after(key.clone(), BATCH_WINDOW);
            to.endpoints.add_after(key, BATCH_WINDOW);
        }
    });

    // A pod can be observed before its node: its endpoint needs the node's zone. The services of
    // such pods are enqueued when the node appears.
    let pods_by_node = manager
        .cache::<Pod>()
        .index(|pod| node_name(pod).map(str::to_owned).into_iter().collect());
    let services = caches.services.clone();
    let slices = &queues.slices;
    slices.enqueue_mapped_after(BATCH_WINDOW, &caches.nodes, move |change| {
        let node = change.new.as_ref().filter(|_| change.old.is_none());
        let pods = node.map(|node| pods_by_node.find(name(&node.metadata)));
        let arrived = |pod| Change {
            old: None,
            new: Some(pod),
        };
        let pods = pods.unwrap_or_default().into_iter();
        let keys = pods.flat_map(|pod| services_of(&services, &arrived(pod)));
        keys.collect::<Vec<_>>()
    });

    let to = queues.clone();
    caches.slices.on_change(move |change| {
        for slice in change.sides() {
            let Some(key) = slice_service(slice) else {
                continue;
            };
            match slices::managed_by(slice) {
                Some(slices::MANAGER) => to.slices.add(key),
                Some(mirror::MANAGER) => to.mirror.add(key),
                _ => {}
            }
        }
    });
}

/// The services that select, or selected, a pod.
fn services_of(services: &Cache<Service>, change: &Change<Pod>) -> Vec<Key> {
    let Some(pod) = change.object() else {
        return Vec::new();
    };
    let selects = |service: &&Arc<Service>| {
        backends::selector(service)
            .is_some_and(|selector| change.sides().any(|pod| backends::selects(selector, pod)))
    };
    let services = services.in_namespace(namespace(&pod.metadata));
    let selecting = services.iter().filter(selects);
    selecting.map(|it| Key::of(&it.metadata)).collect()
}
