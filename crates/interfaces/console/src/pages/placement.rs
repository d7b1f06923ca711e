//! Placement: gated pods and why, the platforms of images, and the state of registries.

mod lookups;
mod read;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::kubevirt::labels::CREATED_BY;
use api::mode::Ownership;
use api::node;
use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use cluster_view::rivals::PlacementRival;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, PodStatus};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use machinery::time::human_duration;
use placement::names::{GATE, WAITING, WHY};
use placement::{
    Coverage, Inspection, PodSummary, RuntimeClass as Class, Settings, Survey, survey,
};
use serde_json::json;

use self::lookups::Registry;
pub(crate) use self::lookups::RegistryLookups;
use self::read::{cluster, images, surveyed};
use super::{Level, Notice, Page, Standing};
use crate::error::Problem;
use crate::layout::Layout;
use crate::viewer::{Shown, Unavailable, Viewer, shown};
use crate::visitor::{Fields, Visitor};

/// Path of the page.
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

/// Pods or images listed.
const MAX_LISTED: usize = 200;
/// Timeout of reads that are not cached.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

impl Shown for RuntimeClass {}

impl Shown for Pod {
    /// Pods are many, and the content of their containers is confidential and not needed.
    fn trim(&mut self) {
        let meta = &mut self.metadata;
        meta.managed_fields = None;
        if let Some(annotations) = &mut meta.annotations {
            annotations.retain(|name, _| name.starts_with("medley.dev/") || name == MIRROR);
        }
        if let Some(labels) = &mut meta.labels {
            // Identifies the VM of a launcher pod.
            labels.retain(|name, _| name.starts_with("kubevirt.io/"));
        }
        let labels = self.metadata.labels.as_ref();
        // What launchers request decides where VMs can migrate (the pages about CPU models).
        let is_launcher = labels.is_some_and(|labels| labels.contains_key(CREATED_BY));
        if let Some(spec) = self.spec.take() {
            let kept = |it: Container| Container {
                resources: it.resources.filter(|_| is_launcher),
                restart_policy: it.restart_policy,
                name: it.name,
                image: it.image,
                image_pull_policy: it.image_pull_policy,
                ..Container::default()
            };
            let first = spec.init_containers;
            // Only image volumes are needed.
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
                overhead: spec.overhead,
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

/// Annotation of static pods, written by the kubelet.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// An unscheduled pod.
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
    /// The same with a shortened digest.
    short: String,
    /// Its platforms, from the registry.
    platforms: Option<String>,
    /// Platforms of the nodes that run it now.
    runs_on: String,
    pods: usize,
    nodes: Option<usize>,
    of_nodes: usize,
    /// Whether the registry lookup failed.
    failed: bool,
}

struct PageData {
    waiting: Vec<Waiting>,
    more_waiting: usize,
    images: Vec<Image>,
    more_images: usize,
    registries: Vec<Registry>,
    /// Age of the registry lookups, if there were any.
    lookup_age: Option<String>,
}

#[derive(Template)]
#[template(path = "placement.html")]
struct Placement {
    layout: Layout,
    /// Who places pods, if the user may read that.
    ownership: Option<Ownership>,
    data: Result<PageData, Unavailable>,
}

async fn show(visitor: Visitor) -> Result<Response, Problem> {
    let (view, ownership) = tokio::join!(
        PlacementView::of(visitor.viewer()),
        ownership(visitor.client())
    );
    let view = shown(view)?;
    Page::html(&Placement {
        layout: visitor.layout("Placement", PATH),
        ownership,
        data: view.map(|view| view.data(&visitor.session.lookups)),
    })
}

/// Who places pods: Medley or the multiarch-tuning-operator.
async fn ownership(client: &Client) -> Option<Ownership> {
    let read = PlacementRival::read(client);
    let read = tokio::time::timeout(READ_TIMEOUT, read).await;
    Some(read.ok()?.ok()?.ownership())
}

/// Inspects all images that the user's pods use in their registries.
async fn look(visitor: Visitor, _checked: Fields) -> Result<Response, Problem> {
    let view = PlacementView::of(visitor.viewer()).await?;
    let plain = insecure(visitor.client()).await;
    let options = &visitor.console.shared().options;
    let lookups = &visitor.session.lookups;
    let asked = lookups.ask(view.images(), plain, options).await;
    Ok(visitor.done(asked, PATH))
}

/// The registries that the cluster reaches without TLS, if the user may read that: CDI's import
/// settings apply to the whole cluster.
async fn insecure(client: &Client) -> Vec<String> {
    let kind = GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", "CDIConfig");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let found = tokio::time::timeout(READ_TIMEOUT, api.get_opt("config")).await;
    let found = found.ok().and_then(Result::ok).flatten();
    let hosts = found.and_then(|it| it.data.pointer("/spec/insecureRegistries").cloned());
    let hosts = hosts.and_then(|it| serde_json::from_value(it).ok());
    hosts.unwrap_or_default()
}

/// Pods and nodes that the user sees.
struct PlacementView {
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    classes: Vec<Arc<RuntimeClass>>,
}

impl PlacementView {
    async fn of(viewer: &Viewer) -> Result<Self, Unavailable> {
        let (pods, nodes, classes) = tokio::join!(viewer.all(), viewer.all(), viewer.all());
        Ok(Self {
            pods: pods?,
            // A user who may read pods but not nodes still sees gated pods.
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

    fn data(&self, lookups: &RegistryLookups) -> PageData {
        let known = lookups.known();
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
        let more_waiting = waiting.len().saturating_sub(MAX_LISTED);
        waiting.truncate(MAX_LISTED);
        let coverage = surveyed.iter().flat_map(|it| &it.images);
        let coverage: BTreeMap<&str, &Coverage> =
            coverage.map(|it| (it.image.as_str(), it)).collect();
        let mut images: Vec<Image> = self
            .used()
            .into_iter()
            .map(|(name, used)| {
                let result = coverage.get(name).zip(known.get(name));
                image(name, &used, result, self.nodes.len())
            })
            .collect();
        // Images that the fewest nodes can run first.
        images.sort_by_key(|it| (!it.failed, it.nodes.unwrap_or(usize::MAX)));
        let more_images = images.len().saturating_sub(MAX_LISTED);
        images.truncate(MAX_LISTED);
        PageData {
            waiting,
            more_waiting,
            images,
            more_images,
            registries: lookups.registries(),
            lookup_age: lookups.age(),
        }
    }

    /// The evaluation of the registries' answers; `None` before they were asked.
    fn surveyed(&self, known: &BTreeMap<String, Inspection>) -> Option<Survey> {
        if known.is_empty() {
            return None;
        }
        let classes = self.classes.iter().map(|class| {
            let class = Class::read(&json!(**class));
            (class.name.clone(), class)
        });
        let classes: BTreeMap<String, Class> = classes.collect();
        let pods = self.pods.iter().map(|pod| (name_of(pod), surveyed(pod)));
        let pods: BTreeMap<String, PodSummary> = pods.collect();
        let nodes = self.nodes.iter().map(|it| &**it);
        let cluster = cluster(nodes, pods.values(), classes.values());
        let settings = Settings::default();
        Some(survey(&pods, known, &classes, &cluster, &settings))
    }

    /// The images that pods use, and the platforms of the nodes that run each of them now.
    fn used(&self) -> BTreeMap<&str, ImageUse> {
        let platform = |node: &'_ Arc<Node>| {
            let os = node::os(node).unwrap_or("unknown");
            format!("{os}/{}", node::architecture(node).unwrap_or("unknown"))
        };
        let platforms: HashMap<&str, String> = self
            .nodes
            .iter()
            .filter_map(|it| Some((it.metadata.name.as_deref()?, platform(it))))
            .collect();
        let mut all: BTreeMap<&str, ImageUse> = BTreeMap::new();
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

/// Use of an image.
#[derive(Default)]
struct ImageUse {
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

/// A row for a pod, if placement holds it.
fn waiting(pod: &Pod, stuck: Option<&str>, now: jiff::Timestamp) -> Option<Waiting> {
    let spec = pod.spec.as_ref().filter(|_| is_waiting(pod))?;
    let mut gates = spec.scheduling_gates.iter().flatten();
    let is_held = gates.any(|gate| gate.name == GATE);
    let decision = pod.annotations().get(WHY);
    let (level, state, why) = match (is_held, decision, stuck) {
        (true, Some(why), _) if why.starts_with(WAITING) => (Level::Busy, "Held", why.clone()),
        (true, Some(why), _) => (Level::Bad, "Refused", why.clone()),
        (_, _, Some(why)) => (Level::Bad, "Cannot run", why.to_owned()),
        (true, None, None) => (
            Level::Busy,
            "Held",
            "Its images are being inspected.".to_owned(),
        ),
        // Other reasons of the scheduler do not concern placement.
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

/// The name of an image with a shortened digest.
fn short(name: &str) -> String {
    let digest = name.split_once("@sha256:");
    match digest.and_then(|(name, hex)| Some((name, hex.get(..12)?))) {
        Some((name, hex)) => format!("{name}@{hex}…"),
        None => name.to_owned(),
    }
}

fn image(
    name: &str,
    used: &ImageUse,
    result: Option<(&&Coverage, &Inspection)>,
    nodes: usize,
) -> Image {
    let failed = result.is_some_and(|(_, known)| matches!(known, Inspection::Uninspectable(_)));
    let platforms: Vec<&str> = used.platforms.iter().map(String::as_str).collect();
    Image {
        name: name.to_owned(),
        short: short(name),
        platforms: result.map(|(coverage, _)| {
            let all = &coverage.platforms;
            if failed {
                all.clone()
            } else {
                all.replace(',', ", ")
            }
        }),
        runs_on: platforms.join(", "),
        pods: used.pods,
        nodes: result
            .filter(|_| !failed)
            .map(|(coverage, _)| coverage.nodes),
        of_nodes: nodes,
        failed,
    }
}

/// State of the job.
async fn standing(viewer: &Viewer) -> Option<Standing> {
    let pods: Vec<Arc<Pod>> = viewer.all().await.ok()?;
    let now = jiff::Timestamp::now();
    let held: Vec<Waiting> = pods
        .iter()
        .filter_map(|it| waiting(it, None, now))
        .collect();
    let troubled = || held.iter().filter(|it| it.level > Level::Busy);
    let notices = troubled().take(MAX_LISTED).map(|it| Notice {
        level: it.level,
        subject: format!("{}/{}", it.namespace, it.name),
        text: it.why.clone(),
        href: PATH.to_owned(),
    });
    Some(Standing {
        headline: format!("{} pods, {} held back", pods.len(), held.len()),
        notices: notices.collect(),
        more: troubled().count().saturating_sub(MAX_LISTED),
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
        let mut annotated = gated.clone();
        annotated["metadata"] = json!({ "annotations": { WHY: "Waiting: inspecting images" } });
        assert_eq!(state(&pod(&annotated), None), Some("Held"));
        let mut refused = gated;
        refused["metadata"] = json!({ "annotations": { WHY: "no node" } });
        assert_eq!(state(&pod(&refused), None), Some("Refused"));
        let placed = json!({ "spec": { "nodeName": "x" } });
        assert_eq!(state(&pod(&placed), Some("why")), None);
    }

    #[test]
    fn digests_are_shortened() {
        let hex = "ab".repeat(32);
        let name = format!("quay.io/x/y@sha256:{hex}");
        assert_eq!(short(&name), "quay.io/x/y@abababababab…");
        assert_eq!(short("quay.io/x/y:1"), "quay.io/x/y:1");
        assert_eq!(short("x@sha256:ab"), "x@sha256:ab");
    }

    #[test]
    fn container_contents_are_trimmed() {
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
