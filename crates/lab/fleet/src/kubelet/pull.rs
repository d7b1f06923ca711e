//! Whether a node can create a sandbox for a pod, and whether it can run the pod's images.
//!
//! No layers are pulled. The kubelet asks registries on localhost for the platforms of an image, as
//! a node does before a pull. Images in other registries are assumed to run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use oci::resolve::{Error, SearchResult, seek};
use oci::{Cause, Client, Image, Keyring, Retry, Roots, Routes, Settings};
use parking_lot::Mutex;
use placement::Handler;
use platform::{AddressPolicy, AddressRange, Host, Matcher, NoMatch, Source};

use super::behaviour::Outcome;
use super::containers;

/// The runtime handler and platform with which a node runs a pod.
#[derive(Debug)]
pub(super) struct Sandbox {
    handler: Handler,
    refusal: Option<String>,
}

impl Sandbox {
    /// The sandbox of a pod on a node, for the pod's RuntimeClass if it names one.
    pub(super) fn new(class: Option<(&str, Option<Arc<RuntimeClass>>)>, node: &Node) -> Self {
        let Some((name, class)) = class else {
            return Self::of(Handler::PROCESS, None);
        };
        let Some(class) = class else {
            let refusal = format!("runtimeclass.node.k8s.io {name:?} not found");
            return Self::of(Handler::PROCESS, Some(refusal));
        };
        let named = &class.handler;
        // A node that reports no runtime handlers may support any.
        let reported = node
            .status
            .as_ref()
            .and_then(|it| it.runtime_handlers.as_ref());
        let lacks =
            reported.is_some_and(|all| !all.iter().any(|it| it.name.as_ref() == Some(named)));
        let refusal = lacks.then(|| {
            format!(
                "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for {named:?} is configured"
            )
        });
        Self::of(Handler::parse(named).unwrap_or_default(), refusal)
    }

    fn of(handler: Handler, refusal: Option<String>) -> Self {
        Self { handler, refusal }
    }

    /// Why the sandbox cannot be created.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Matches image platforms as the node would when it pulls.
    fn matcher(&self, node: &Node) -> Matcher {
        let node = placement::Node::read(node).place.platform();
        let wanted = self.handler.platform(&node.architecture).unwrap_or(node);
        Matcher::isolated(&wanted, self.handler.isolation)
    }
}

/// Reads image platforms from registries on localhost.
pub(crate) struct Puller {
    client: Client,
    keyring: Arc<Keyring>,
    /// Registries contacted so far; all of them are configured as insecure.
    hosts: Mutex<BTreeSet<String>>,
}

impl Default for Puller {
    fn default() -> Self {
        // Localhost answers at once or not at all, and the kubelet retries by itself.
        let settings = Settings {
            connect_timeout: Duration::from_secs(2),
            header_timeout: Duration::from_secs(5),
            negative_ttl: Duration::from_millis(500),
            retry: Retry {
                attempts: 1,
                ..Retry::default()
            },
            ..Settings::for_service(Roots::none(), on_this_machine())
        };
        Self {
            client: Client::new(settings, Routes::direct()),
            keyring: Arc::new(Keyring::anonymous()),
            hosts: Mutex::default(),
        }
    }
}

fn on_this_machine() -> AddressPolicy {
    AddressPolicy::allowing(AddressRange::LOOPBACK)
}

impl Puller {
    /// Outcomes for images of containers that do not run yet. Running ones, and images with unknown
    /// platforms, are omitted.
    pub(super) async fn pull(
        &self,
        pod: &Pod,
        node: &Node,
        sandbox: &Sandbox,
    ) -> HashMap<String, Outcome> {
        if sandbox.refusal.is_some() || is_over(pod) {
            return HashMap::new();
        }
        let here: Vec<(&str, Source)> = waiting(pod).into_iter().filter_map(here).collect();
        if here.is_empty() {
            return HashMap::new();
        }
        let matcher = &sandbox.matcher(node);
        let asked = here.into_iter().map(|(name, source)| async move {
            let outcome = self.inspect(name, &source, matcher).await?;
            Some((name.to_owned(), outcome))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn inspect(&self, name: &str, source: &Source, matcher: &Matcher) -> Option<Outcome> {
        if let Source::Registry(reference) = source {
            self.add_insecure_host(reference.host().as_str());
        }
        let image = Image::open(source, &self.client, Arc::clone(&self.keyring)).await;
        match seek(&image.ok()?, name, matcher.clone()).await {
            Ok(sought) => refused(name, sought),
            Err(Error::Registry(error)) if matches!(error.cause, Cause::NotFound { .. }) => {
                Some(no_image(format!(
                    "rpc error: code = NotFound desc = failed to pull and unpack image {name:?}: failed to resolve reference {name:?}: {name}: not found"
                )))
            }
            // Unreachable registries may be foreign or require credentials; such images are assumed
            // to run.
            Err(_) => None,
        }
    }

    /// Configures a registry as insecure.
    fn add_insecure_host(&self, host: &str) {
        let mut hosts = self.hosts.lock();
        if hosts.insert(host.to_owned()) {
            let routes = hosts.iter().fold(Routes::direct(), Routes::with_insecure);
            self.client.set_network(routes);
        }
    }
}

/// The outcome of a container, from the outcome of its image.
pub(super) fn outcome(pulls: &HashMap<String, Outcome>, container: &Container) -> Outcome {
    let image = container.image.as_deref().unwrap_or_default();
    pulls.get(image).cloned().unwrap_or(Outcome::Runs)
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed")) || pod.metadata.deletion_timestamp.is_some()
}

/// Images of containers that do not run.
fn waiting(pod: &Pod) -> BTreeSet<&str> {
    let (Some(spec), status) = (&pod.spec, pod.status.as_ref()) else {
        return BTreeSet::new();
    };
    let statuses: Vec<&ContainerStatus> = status
        .into_iter()
        .flat_map(|status| {
            let inits = status.init_container_statuses.iter().flatten();
            inits.chain(status.container_statuses.iter().flatten())
        })
        .collect();
    let runs = |container: &&Container| {
        let mut own = statuses.iter().filter(|own| own.name == container.name);
        own.any(|own| containers::running(own).is_some())
    };
    let inits = spec.init_containers.iter().flatten();
    let all = inits.chain(&spec.containers);
    all.filter(|container| !runs(container))
        .filter_map(|container| container.image.as_deref())
        .collect()
}

/// The host and reference of an image, if its registry is on localhost.
fn here(name: &str) -> Option<(&str, Source)> {
    let source: Source = name.parse().ok()?;
    // A simulation must not contact registries on the Internet because a pod names an image there.
    let is_here = matches!(&source, Source::Registry(reference) if is_here(reference.host()));
    is_here.then_some((name, source))
}

/// Whether a registry is on localhost.
fn is_here(host: &Host) -> bool {
    let name = host.name().trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn no_image(message: String) -> Outcome {
    Outcome::NoImage {
        reason: "ErrImagePull".to_owned(),
        message,
    }
}

/// The outcome of an image without a matching platform, with containerd's messages. containerd
/// matches the entries of an index against the node, but not a single-platform image: that one is
/// pulled and fails to execute.
fn refused(name: &str, sought: SearchResult) -> Option<Outcome> {
    let why = sought.found.err()?;
    Some(match *why {
        NoMatch::NotAnIndex { wanted, .. } if wanted.os == "windows" => Outcome::Dies {
            code: 128,
            message: "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem: The container operating system does not match the host operating system.".to_owned(),
        },
        NoMatch::NotAnIndex { .. } => Outcome::Dies {
            code: 255,
            message: "exec /app: exec format error".to_owned(),
        },
        _ => no_image(format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image {name:?}: no match for platform in manifest {}: not found",
            sought.root
        )),
    })
}
