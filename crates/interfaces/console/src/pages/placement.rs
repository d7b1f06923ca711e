//! Placement: pods that are held back and why, what images are for, and how registries answer.

mod looked;
mod read;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, PodStatus};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use machinery::time::human_duration;
use placement::names::{ARCHITECTURE, GATE, OS, WAITING, WHY};
use placement::{Coverage, Knowledge, RuntimeClass as Class, Settings, Survey, Surveyed, survey};
use serde_json::json;

pub(crate) use self::looked::Looked;
use self::looked::Registry;
use self::read::{cluster, images, surveyed};
use super::{Level, Notice, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Shown, Unseen, Viewer};
use crate::visitor::{Fields, Visitor};

/// Where it is.
const PATH: &str = "/placement";

pub(crate) const PAGE: Page = Page {
    path: PATH,
    label: "Placement",
    icon: "M12 21s-6-5.2-6-10a6 6 0 0 1 12 0c0 4.8-6 10-6 10zM12 9v4M10 11h4",
    kinds: &["pods", "nodes", "runtimeclasses"],
    routes: || {
        Router::new()
            .route("/placement", get(show))
            .route("/placement/look", post(look))
    },
    standing: Some(|viewer| standing(viewer).boxed()),
};

/// So many pods or images are listed.
const LISTED: usize = 200;
/// How long what is not kept may take to be read.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shown for RuntimeClass {}

impl Shown for Pod {
    /// Pods are many, and what is in their containers is nobody's business here.
    fn trim(&mut self) {
        let meta = &mut self.metadata;
        meta.managed_fields = None;
        if let Some(annotations) = &mut meta.annotations {
            annotations.retain(|name, _| name.starts_with("medley.dev/") || name == MIRROR);
        }
        if let Some(labels) = &mut meta.labels {
            // Whose launcher it is.
            labels.retain(|name, _| name.starts_with("kubevirt.io/"));
        }
        if let Some(spec) = self.spec.take() {
            let kept = |it: Container| Container {
                name: it.name,
                image: it.image,
                image_pull_policy: it.image_pull_policy,
                ..Container::default()
            };
            let first = spec.init_containers;
            // Only images are looked at.
            let volumes = spec.volumes.map(|mut all| {
                all.retain(|volume| volume.image.is_some());
                all
            });
            self.spec = Some(PodSpec {
                affinity: spec.affinity,
                containers: spec.containers.into_iter().map(kept).collect(),
                ephemeral_containers: spec.ephemeral_containers,
                init_containers: first.map(|all| all.into_iter().map(kept).collect()),
                node_name: spec.node_name,
                node_selector: spec.node_selector,
                os: spec.os,
                runtime_class_name: spec.runtime_class_name,
                scheduling_gates: spec.scheduling_gates,
                tolerations: spec.tolerations,
                volumes: volumes.filter(|all| !all.is_empty()),
                ..PodSpec::default()
            });
        }
        if let Some(status) = &mut self.status {
            *status = PodStatus {
                phase: status.phase.take(),
                ..PodStatus::default()
            };
        }
    }
}

/// What the kubelet writes on pods that it runs from files.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod that has no node.
struct Waiting {
    namespace: String,
    name: String,
    level: Level,
    state: &'static str,
    why: String,
    age: String,
    images: Vec<String>,
}

/// An image that pods use.
struct Image {
    name: String,
    /// The same without most of its digest.
    short: String,
    /// What it is for, by its registry.
    told: Option<String>,
    /// What the nodes are that run it now.
    runs_on: String,
    pods: usize,
    nodes: Option<usize>,
    of_nodes: usize,
    /// Whether nobody could find out.
    failed: bool,
}

struct Seen {
    waiting: Vec<Waiting>,
    more_waiting: usize,
    images: Vec<Image>,
    more_images: usize,
    registries: Vec<Registry>,
    /// How long ago registries were asked, if they were.
    looked: Option<String>,
}

#[derive(Template)]
#[template(path = "placement.html")]
struct Placement {
    layout: Layout,
    seen: Result<Seen, Unseen>,
}

async fn show(visitor: Visitor) -> Result<Response, Problem> {
    let seen = match World::of(visitor.viewer()).await {
        Err(Unseen::SignedOut) => return Err(Unseen::SignedOut.into()),
        Err(unseen) => Err(unseen),
        Ok(world) => Ok(world.seen(&visitor.session.looked)),
    };
    Page::html(&Placement {
        layout: visitor.layout("Placement", PATH),
        seen,
    })
}

/// Asks the registries of all images that pods of this user use.
async fn look(visitor: Visitor, _checked: Fields) -> Result<Response, Problem> {
    let world = World::of(visitor.viewer()).await?;
    let plain = insecure(visitor.client()).await;
    let addresses = &visitor.console.shared().options.addresses;
    let looked = &visitor.session.looked;
    let asked = looked.ask(world.images(), plain, addresses).await;
    Ok(visitor.done(asked, PATH))
}

/// The registries that the cluster reaches without TLS, if its user may know: where images are imported, that is
/// said for the whole cluster.
async fn insecure(client: &Client) -> Vec<String> {
    let kind = GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", "CDIConfig");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let found = tokio::time::timeout(PATIENCE, api.get_opt("config")).await;
    let found = found.ok().and_then(Result::ok).flatten();
    let hosts = found.and_then(|it| it.data.pointer("/spec/insecureRegistries").cloned());
    let hosts = hosts.and_then(|it| serde_json::from_value(it).ok());
    hosts.unwrap_or_default()
}

/// What a user sees of pods and nodes.
struct World {
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    classes: Vec<Arc<RuntimeClass>>,
}

impl World {
    async fn of(viewer: &Viewer) -> Result<Self, Unseen> {
        let (pods, nodes, classes) = tokio::join!(viewer.all(), viewer.all(), viewer.all());
        Ok(Self {
            pods: pods?,
            // Who sees pods and no nodes sees at least what is held back.
            nodes: nodes.unwrap_or_default(),
            classes: classes.unwrap_or_default(),
        })
    }

    /// Every image that is used.
    fn images(&self) -> BTreeSet<String> {
        let specs = self.pods.iter().filter_map(|it| it.spec.as_ref());
        let all: BTreeSet<&str> = specs.flat_map(images).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    fn seen(&self, looked: &Looked) -> Seen {
        let known = looked.known();
        let surveyed = self.surveyed(&known);
        let stuck = surveyed.iter().flat_map(|it| &it.stuck);
        let stuck: BTreeMap<&str, &str> =
            stuck.map(|it| (it.pod.as_str(), it.why.as_str())).collect();
        let now = jiff::Timestamp::now();
        let mut waiting: Vec<Waiting> = self
            .pods
            .iter()
            .filter_map(|pod| {
                // Most pods have a node.
                is_waiting(pod).then_some(())?;
                let why = stuck.get(name_of(pod).as_str()).copied();
                waiting(pod, why, now)
            })
            .collect();
        waiting.sort_by(|one, other| other.level.cmp(&one.level).then(one.name.cmp(&other.name)));
        let more_waiting = waiting.len().saturating_sub(LISTED);
        waiting.truncate(LISTED);
        let coverage = surveyed.iter().flat_map(|it| &it.images);
        let coverage: BTreeMap<&str, &Coverage> =
            coverage.map(|it| (it.image.as_str(), it)).collect();
        let mut images: Vec<Image> = self
            .used()
            .into_iter()
            .map(|(name, used)| {
                let told = coverage.get(name).zip(known.get(name));
                image(name, &used, told, self.nodes.len())
            })
            .collect();
        // Those that run on the fewest nodes first.
        images.sort_by_key(|it| (!it.failed, it.nodes.unwrap_or(usize::MAX)));
        let more_images = images.len().saturating_sub(LISTED);
        images.truncate(LISTED);
        Seen {
            waiting,
            more_waiting,
            images,
            more_images,
            registries: looked.registries(),
            looked: looked.age(),
        }
    }

    /// What comes of what registries said. Where nobody asked them, nothing does.
    fn surveyed(&self, known: &BTreeMap<String, Knowledge>) -> Option<Survey> {
        if known.is_empty() {
            return None;
        }
        let classes = self.classes.iter().map(|class| {
            let class = Class::read(&json!(**class));
            (class.name.clone(), class)
        });
        let classes: BTreeMap<String, Class> = classes.collect();
        let pods = self.pods.iter().map(|pod| (name_of(pod), surveyed(pod)));
        let pods: BTreeMap<String, Surveyed> = pods.collect();
        let nodes = self.nodes.iter().map(|it| &**it);
        let cluster = cluster(nodes, pods.values(), classes.values());
        let settings = Settings::default();
        Some(survey(&pods, known, &classes, &cluster, &settings))
    }

    /// The images that pods use, and what the nodes are that run each of them now.
    fn used(&self) -> BTreeMap<&str, Used> {
        let platform = |node: &'_ Arc<Node>| {
            let label = |name: &str| node.labels().get(name).map_or("unknown", String::as_str);
            format!("{}/{}", label(OS), label(ARCHITECTURE))
        };
        let platforms: HashMap<&str, String> = self
            .nodes
            .iter()
            .filter_map(|it| Some((it.metadata.name.as_deref()?, platform(it))))
            .collect();
        let mut all: BTreeMap<&str, Used> = BTreeMap::new();
        for spec in self.pods.iter().filter_map(|it| it.spec.as_ref()) {
            let node = spec.node_name.as_deref();
            let platform = node.and_then(|node| platforms.get(node));
            let names: BTreeSet<&str> = images(spec).collect();
            for name in names {
                let used = all.entry(name).or_default();
                used.pods += 1;
                if let Some(platform) = platform
                    && !used.platforms.contains(platform.as_str())
                {
                    used.platforms.insert(platform.clone());
                }
            }
        }
        all
    }
}

/// How an image is used.
#[derive(Default)]
struct Used {
    pods: usize,
    platforms: BTreeSet<String>,
}

/// Namespace and name.
fn name_of(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn is_waiting(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_some_and(|it| it.node_name.is_none())
}

/// What is shown of a pod, if it waits for its place.
fn waiting(pod: &Pod, stuck: Option<&str>, now: jiff::Timestamp) -> Option<Waiting> {
    let spec = pod.spec.as_ref().filter(|_| is_waiting(pod))?;
    let mut gates = spec.scheduling_gates.iter().flatten();
    let is_held = gates.any(|gate| gate.name == GATE);
    let told = pod.annotations().get(WHY);
    let (level, state, why) = match (is_held, told, stuck) {
        (true, Some(why), _) if why.starts_with(WAITING) => (Level::Busy, "Held", why.clone()),
        (true, Some(why), _) => (Level::Bad, "Refused", why.clone()),
        (_, _, Some(why)) => (Level::Bad, "Cannot run", why.to_owned()),
        (true, None, None) => (
            Level::Busy,
            "Held",
            "Its images are being looked at.".to_owned(),
        ),
        // What the scheduler waits for is no business of placement.
        (false, _, None) => return None,
    };
    let age = pod.creation_timestamp();
    Some(Waiting {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        level,
        state,
        why,
        age: age
            .map(|it| human_duration(now.duration_since(it.0)))
            .unwrap_or_default(),
        images: images(spec).map(str::to_owned).collect(),
    })
}

/// The name of an image with the beginning of its digest.
fn short(name: &str) -> String {
    let digest = name.split_once("@sha256:");
    match digest.and_then(|(name, hex)| Some((name, hex.get(..12)?))) {
        Some((name, hex)) => format!("{name}@{hex}…"),
        None => name.to_owned(),
    }
}

fn image(name: &str, used: &Used, told: Option<(&&Coverage, &Knowledge)>, nodes: usize) -> Image {
    let failed = told.is_some_and(|(_, known)| matches!(known, Knowledge::Uninspectable(_)));
    let platforms: Vec<&str> = used.platforms.iter().map(String::as_str).collect();
    Image {
        name: name.to_owned(),
        short: short(name),
        told: told.map(|(coverage, _)| {
            let all = &coverage.told;
            if failed {
                all.clone()
            } else {
                all.replace(',', ", ")
            }
        }),
        runs_on: platforms.join(", "),
        pods: used.pods,
        nodes: told.filter(|_| !failed).map(|(coverage, _)| coverage.nodes),
        of_nodes: nodes,
        failed,
    }
}

/// How it is with the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let pods: Vec<Arc<Pod>> = viewer.all().await.ok()?;
    let now = jiff::Timestamp::now();
    let held: Vec<Waiting> = pods
        .iter()
        .filter_map(|it| waiting(it, None, now))
        .collect();
    let troubled = || held.iter().filter(|it| it.level > Level::Busy);
    let notices = troubled().take(LISTED).map(|it| Notice {
        level: it.level,
        subject: format!("{}/{}", it.namespace, it.name),
        text: it.why.clone(),
        href: PATH.to_owned(),
    });
    Some(Standing {
        headline: format!("{} pods, {} held back", pods.len(), held.len()),
        notices: notices.collect(),
        more: troubled().count().saturating_sub(LISTED),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn pod(extra: &Value) -> Pod {
        let mut pod = json!({
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "containers": [{ "name": "c", "image": "x", "env": [{ "name": "A", "value": "s" }] }] },
        });
        for (key, value) in extra.as_object().into_iter().flatten() {
            for (inner, value) in value.as_object().into_iter().flatten() {
                pod[key][inner] = value.clone();
            }
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn only_pods_that_placement_holds_are_shown() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let state = |pod: &Pod, stuck| waiting(pod, stuck, now).map(|it| it.state);
        let gated = json!({ "spec": { "schedulingGates": [{ "name": GATE }] } });
        assert_eq!(state(&pod(&json!({})), None), None);
        assert_eq!(state(&pod(&json!({})), Some("why")), Some("Cannot run"));
        assert_eq!(state(&pod(&gated), None), Some("Held"));
        let mut looked_at = gated.clone();
        looked_at["metadata"] = json!({ "annotations": { WHY: "Waiting: somebody looks" } });
        assert_eq!(state(&pod(&looked_at), None), Some("Held"));
        let mut refused = gated;
        refused["metadata"] = json!({ "annotations": { WHY: "no node" } });
        assert_eq!(state(&pod(&refused), None), Some("Refused"));
        let placed = json!({ "spec": { "nodeName": "x" } });
        assert_eq!(state(&pod(&placed), Some("why")), None);
    }

    #[test]
    fn most_of_a_digest_is_not_shown() {
        let hex = "ab".repeat(32);
        let name = format!("quay.io/x/y@sha256:{hex}");
        assert_eq!(short(&name), "quay.io/x/y@abababababab…");
        assert_eq!(short("quay.io/x/y:1"), "quay.io/x/y:1");
        assert_eq!(short("x@sha256:ab"), "x@sha256:ab");
    }

    #[test]
    fn what_is_in_containers_is_not_kept() {
        let mut pod = pod(&json!({ "metadata": { "annotations": { "a": "b", WHY: "c" } } }));
        pod.trim();
        assert_eq!(pod.annotations().len(), 1);
        let kept = json!(pod.spec);
        assert_eq!(
            kept,
            json!({ "containers": [{ "name": "c", "image": "x" }] })
        );
    }
}
