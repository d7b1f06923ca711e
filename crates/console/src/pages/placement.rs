//! Placement: pods that are held back and why, what images are for, and how registries answer.

mod looked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::ResourceExt as _;
use machinery::time::human_duration;
use placement::names::{ARCHITECTURE, GATE, OS, WAITING, WHY};
use placement::{Cluster, Coverage, Knowledge, Settings, images, survey};
use serde_json::{Value, json};

pub(crate) use self::looked::Looked;
use self::looked::Registry;
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

impl Shown for RuntimeClass {}

impl Shown for Pod {
    /// Pods are many, and what is in their containers is nobody's business here.
    fn trim(&mut self) {
        let meta = &mut self.metadata;
        meta.managed_fields = None;
        if let Some(annotations) = &mut meta.annotations {
            annotations.retain(|name, _| name.starts_with("medley.dev/") || name == MIRROR);
        }
        if let Some(spec) = &mut self.spec {
            let containers = spec.containers.iter_mut();
            for container in containers.chain(spec.init_containers.iter_mut().flatten()) {
                container.env = None;
                container.env_from = None;
                container.args = None;
                container.command = None;
                container.volume_mounts = None;
                container.volume_devices = None;
                container.liveness_probe = None;
                container.readiness_probe = None;
                container.startup_probe = None;
                container.lifecycle = None;
                container.ports = None;
                container.resources = None;
            }
            if let Some(volumes) = &mut spec.volumes {
                // Only images are looked at.
                volumes.retain(|volume| volume.image.is_some());
            }
        }
        if let Some(status) = &mut self.status {
            status.container_statuses = None;
            status.init_container_statuses = None;
            status.ephemeral_container_statuses = None;
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
    let asked = visitor.session.looked.ask(world.images()).await;
    Ok(visitor.done(asked, PATH))
}

/// What a user sees of pods and nodes.
struct World {
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    classes: Vec<Arc<RuntimeClass>>,
}

impl World {
    async fn of(viewer: &Viewer) -> Result<Self, Unseen> {
        Ok(Self {
            pods: viewer.all().await?,
            // Who sees pods and no nodes sees at least what is held back.
            nodes: viewer.all().await.unwrap_or_default(),
            classes: viewer.all().await.unwrap_or_default(),
        })
    }

    /// Every image that is used.
    fn images(&self) -> BTreeSet<String> {
        let pods = self.pods.iter().map(|it| json!(it.spec));
        let all = pods.flat_map(|spec| images(&spec));
        all.map(|used| used.image).collect()
    }

    fn seen(&self, looked: &Looked) -> Seen {
        let known = looked.known();
        let mut cluster = Cluster::default();
        for node in &self.nodes {
            cluster.upsert(placement::Node::read(&json!(**node)));
        }
        let classes = self.classes.iter().map(|class| {
            let class = placement::RuntimeClass::read(&json!(**class));
            (class.name.clone(), class)
        });
        let classes: BTreeMap<_, _> = classes.collect();
        let pods = self.pods.iter().map(|pod| {
            let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            (name, json!(**pod))
        });
        let pods: BTreeMap<String, Value> = pods.collect();
        let surveyed = survey(&pods, &known, &classes, &cluster, &Settings::default());
        let stuck: BTreeMap<&str, &str> = surveyed
            .stuck
            .iter()
            .map(|it| (it.pod.as_str(), it.why.as_str()))
            .collect();
        let now = jiff::Timestamp::now();
        let mut waiting: Vec<Waiting> = self
            .pods
            .iter()
            .filter_map(|pod| {
                let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                waiting(pod, stuck.get(name.as_str()).copied(), now)
            })
            .collect();
        waiting.sort_by(|one, other| other.level.cmp(&one.level).then(one.name.cmp(&other.name)));
        let more_waiting = waiting.len().saturating_sub(LISTED);
        waiting.truncate(LISTED);
        let runs = self.platforms_by_image();
        let mut images: Vec<Image> = surveyed
            .images
            .iter()
            .map(|it| image(it, known.get(&it.image), &runs))
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

    /// What the nodes are that run each image now.
    fn platforms_by_image(&self) -> BTreeMap<String, BTreeSet<String>> {
        let platform = |node: &Node| {
            let label = |name: &str| node.labels().get(name).map_or("unknown", String::as_str);
            format!("{}/{}", label(OS), label(ARCHITECTURE))
        };
        let platforms: BTreeMap<String, String> = self
            .nodes
            .iter()
            .map(|it| (it.name_any(), platform(it)))
            .collect();
        let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in &self.pods {
            let node = pod.spec.as_ref().and_then(|it| it.node_name.as_ref());
            let Some(platform) = node.and_then(|node| platforms.get(node)) else {
                continue;
            };
            for used in images(&json!(pod.spec)) {
                runs.entry(used.image).or_default().insert(platform.clone());
            }
        }
        runs
    }
}

/// What is shown of a pod, if it waits for its place.
fn waiting(pod: &Pod, stuck: Option<&str>, now: jiff::Timestamp) -> Option<Waiting> {
    let spec = pod.spec.as_ref()?;
    if spec.node_name.is_some() {
        return None;
    }
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
        images: images(&json!(spec))
            .into_iter()
            .map(|it| it.image)
            .collect(),
    })
}

fn image(
    coverage: &Coverage,
    known: Option<&Knowledge>,
    runs: &BTreeMap<String, BTreeSet<String>>,
) -> Image {
    let runs_on = runs.get(&coverage.image).into_iter().flatten();
    let failed = matches!(known, Some(Knowledge::Uninspectable(_)));
    Image {
        name: coverage.image.clone(),
        told: known.map(|_| coverage.told.clone()),
        runs_on: runs_on.cloned().collect::<Vec<_>>().join(", "),
        pods: coverage.pods,
        nodes: known.filter(|_| !failed).map(|_| coverage.nodes),
        of_nodes: coverage.of_nodes,
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
    let notices = held
        .iter()
        .filter(|it| it.level > Level::Busy)
        .map(|it| Notice {
            level: it.level,
            subject: format!("{}/{}", it.namespace, it.name),
            text: it.why.clone(),
            href: PATH.to_owned(),
        });
    Some(Standing {
        headline: format!("{} pods, {} held back", pods.len(), held.len()),
        notices: notices.take(LISTED).collect(),
    })
}

#[cfg(test)]
mod tests {
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
