//! Whether a node can make a sandbox for a pod, and whether it can run the images in it.
//!
//! Nothing is pulled: registries on this machine are asked what their images are for, as a node asks
//! that is about to pull one. Of images elsewhere nothing is known, and they are taken to run.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use importer::{Error, Sought, seek};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use oci::{Cause, Client, Image, Keyring, Retry, Roots, Routes, Settings};
use parking_lot::Mutex;
use placement::Handler;
use platform::{AddressPolicy, AddressRange, Host, Matcher, NoMatch, Source};
use serde_json::json;

use super::behaviour::Outcome;
use super::containers;

/// What a node runs a pod with.
#[derive(Debug)]
pub(super) struct Sandbox {
    handler: Handler,
    refusal: Option<String>,
}

impl Sandbox {
    /// The sandbox of a pod of a class, if it has one, on a node.
    pub(super) fn new(class: Option<(&str, Option<Arc<RuntimeClass>>)>, node: &Node) -> Self {
        let Some((name, class)) = class else {
            return Self::of(Handler::PROCESS, None);
        };
        let Some(class) = class else {
            let refusal = format!("runtimeclass.node.k8s.io {name:?} not found");
            return Self::of(Handler::PROCESS, Some(refusal));
        };
        let named = &class.handler;
        // A node that tells of no handlers may have any.
        let told = node
            .status
            .as_ref()
            .and_then(|it| it.runtime_handlers.as_ref());
        let lacks = told.is_some_and(|all| !all.iter().any(|it| it.name.as_ref() == Some(named)));
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

    /// Why there is none.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// What the node pulls for it.
    fn matcher(&self, node: &Node) -> Matcher {
        let node = placement::Node::read(&json!(node)).place.platform();
        let wanted = self.handler.platform(&node.architecture).unwrap_or(node);
        Matcher::isolated(&wanted, self.handler.isolation)
    }
}

/// Asks registries on this machine.
pub(crate) struct Puller {
    client: Client,
    keyring: Arc<Keyring>,
    /// Registries that were met; none of them has to prove who it is.
    hosts: Mutex<BTreeSet<String>>,
}

impl Default for Puller {
    fn default() -> Self {
        // They answer at once or not at all, and a kubelet tries again by itself.
        let settings = Settings {
            connect_timeout: Duration::from_secs(2),
            header_timeout: Duration::from_secs(5),
            miss_life: Duration::from_millis(500),
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
    /// What becomes of the images of a pod that do not run yet; those that run, and those of which
    /// nothing is known, are not in it.
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
            let outcome = self.ask(name, &source, matcher).await?;
            Some((name.to_owned(), outcome))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn ask(&self, name: &str, source: &Source, matcher: &Matcher) -> Option<Outcome> {
        if let Source::Registry(reference) = source {
            self.meet(reference.host().as_str());
        }
        let image = Image::open(source, &self.client, Arc::clone(&self.keyring)).await;
        match seek(&image.ok()?, name, matcher.clone()).await {
            Ok(sought) => refused(name, sought),
            Err(Error::Registry(error)) if matches!(error.cause, Cause::NotFound { .. }) => {
                Some(no_image(format!(
                    "rpc error: code = NotFound desc = failed to pull and unpack image {name:?}: failed to resolve reference {name:?}: {name}: not found"
                )))
            }
            // Whoever cannot be asked may be somebody else's, or for those with credentials.
            Err(_) => None,
        }
    }

    /// From now on, this registry need not prove who it is.
    fn meet(&self, host: &str) {
        let mut hosts = self.hosts.lock();
        if hosts.insert(host.to_owned()) {
            let routes = hosts.iter().fold(Routes::direct(), Routes::with_insecure);
            self.client.set_routes(routes);
        }
    }
}

/// What becomes of a container, by what became of its image.
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

/// Where an image is, if that is on this machine.
fn here(name: &str) -> Option<(&str, Source)> {
    let source: Source = name.parse().ok()?;
    let is_here = matches!(&source, Source::Registry(reference) if is_here(reference.host()));
    is_here.then_some((name, source))
}

/// Whether a registry is on this machine.
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

/// What becomes of an image that is not for the node, in the words of containerd. It compares the entries
/// of an index with the node, but not an image that stands alone: that one is pulled, and dies.
fn refused(name: &str, sought: Sought) -> Option<Outcome> {
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
