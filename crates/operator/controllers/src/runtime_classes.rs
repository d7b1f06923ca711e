//! RuntimeClasses for the Windows builds of the cluster.
//!
//! ```text
//! gather: nodes, RuntimeClasses, and pods of obsolete classes
//!   decide: placement::runtime_classes::plan --> serve, remove, keep, withhold
//!     apply: the build label of nodes whose kubelet did not set it; classes, by server-side apply
//!       report: events of nodes and classes, metrics; an annotation on a class that is kept
//! ```

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::node;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use placement::runtime_classes::{ClassPlan, obsolete, plan};
use placement::{Cluster, names};
use runtime::{Cache, Change, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use report::Report;

/// Name of the controller in logs, events and managed fields.
pub const COMPONENT: &str = "medley-runtime-classes";

/// Batch window of node changes.
const BATCH_WINDOW: Duration = Duration::from_millis(200);
/// How often to check whether an obsolete class still has pods. Pods are listed, not watched: there are many, and a
/// class is rarely obsolete.
const USAGE_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Page size of pod lists.
const POD_PAGE_SIZE: u32 = 500;

/// Starts the controller; returns once its caches have synced.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let controller = RuntimeClassController {
        client: manager.client(),
        nodes: manager.cache(),
        classes: manager.cache(),
        events: crate::reasons::events(manager, COMPONENT),
        report: Report::new(manager),
    };
    controller.nodes.synced().await;
    controller.classes.synced().await;
    let queue: Queue<Key> = Queue::new();
    // One reconcile covers all nodes and classes.
    let all = || Key::new("", "all");
    let to = queue.clone();
    controller.nodes.on_change(move |change| {
        if affects_classes(change) {
            to.add_after(all(), BATCH_WINDOW);
        }
    });
    let to = queue.clone();
    controller
        .classes
        .on_change(move |_| to.add_after(all(), BATCH_WINDOW));
    queue.add(all());
    manager.start(controller, &queue, 1);
    Ok(())
}

/// Whether a node change can affect the classes; heartbeats cannot.
fn affects_classes(change: &Change<Node>) -> bool {
    let read = |side: &Option<Arc<Node>>| {
        let node = side.as_deref().filter(|node| is_windows(node))?;
        Some(placement::Node::read(node))
    };
    read(&change.old) != read(&change.new)
}

fn is_windows(node: &Node) -> bool {
    node::os(node) == Some("windows")
}

struct RuntimeClassController {
    client: Client,
    nodes: Cache<Node>,
    classes: Cache<RuntimeClass>,
    events: Events,
    report: Report,
}

impl Reconcile for RuntimeClassController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        let cluster = self.label().await?;
        let existing: Vec<Value> = self.classes.list().iter().map(json).collect();
        let users = self.users(&obsolete(&cluster, &existing)).await?;
        let plan = plan(&cluster, &existing, &users);
        self.apply(&plan).await?;
        self.report_plan(&cluster, &plan);
        Ok(if plan.keep.is_empty() {
            Next::Wait
        } else {
            Next::After(USAGE_CHECK_INTERVAL)
        })
    }
}

/// The object as JSON, the form that the `placement` crate reads.
fn json<K: Serialize>(object: &Arc<K>) -> Value {
    json!(**object)
}

impl RuntimeClassController {
    /// Sets the missing build labels of Windows nodes; returns these nodes as labelled.
    async fn label(&self) -> Result<Cluster, Error> {
        let mut cluster = Cluster::default();
        let nodes = self.nodes.list();
        for node in nodes.iter().filter(|node| is_windows(node)) {
            let mut read = placement::Node::read(node);
            if let Some(build) = read.missing_build() {
                let name = node.name_any();
                let message = format!(
                    "the kubelet did not set the Windows build label; set {}={build}",
                    names::WINDOWS_BUILD
                );
                let patch = json!({ "metadata": { "labels": { names::WINDOWS_BUILD: build } } });
                let writer = Writer::new(Api::all(self.client.clone()), COMPONENT);
                let writer = writer.shown_by(&self.nodes);
                let labelled: Node = match writer.merge(&Key::new("", name), &patch).await {
                    // The node was removed between the cache and the write; its
                    // deletion event brings the next reconcile.
                    Err(error) if error.is_not_found() => continue,
                    labelled => labelled?,
                };
                self.events.normal(&**node, "WindowsBuildLabelled", message);
                read = placement::Node::read(&labelled);
            }
            cluster.upsert(read);
        }
        Ok(cluster)
    }

    /// Number of pods by class, without completed ones.
    async fn users(&self, classes: &BTreeSet<String>) -> Result<BTreeMap<String, usize>, Error> {
        let mut users = BTreeMap::new();
        if classes.is_empty() {
            return Ok(users);
        }
        let api: Api<Pod> = Api::all(self.client.clone());
        let mut params = ListParams::default()
            .fields("status.phase!=Succeeded,status.phase!=Failed")
            .limit(POD_PAGE_SIZE);
        loop {
            let page = api
                .list(&params)
                .await
                .map_err(Error::api("listing pods by runtime class"))?;
            for pod in &page.items {
                let spec = pod.spec.as_ref();
                let class = spec.and_then(|spec| spec.runtime_class_name.as_ref());
                if let Some(class) = class.filter(|class| classes.contains(*class)) {
                    *users.entry(class.clone()).or_default() += 1;
                }
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(users);
            }
        }
    }

    /// Deletes, then creates and updates classes.
    async fn apply(&self, plan: &ClassPlan) -> Result<(), Error> {
        let writer = Writer::<RuntimeClass>::new(Api::all(self.client.clone()), COMPONENT);
        let writer = writer.shown_by(&self.classes);
        // Deletions first: `handler` of a RuntimeClass is immutable (`pkg/apis/node/validation/validation.go`), so a
        // changed class is deleted and created in this order.
        for name in &plan.remove {
            if let Some(class) = self.classes.get("", name) {
                writer.delete(&class.metadata).await?;
            }
        }
        let kept = plan.keep.iter().filter(|kept| !kept.is_there);
        let kept = kept.map(|kept| (&kept.name, &kept.object));
        let served = plan.serve.iter().filter(|served| !served.is_there);
        let served = served.map(|served| (&served.name, &served.object));
        for (name, object) in served.chain(kept) {
            writer.apply(&Key::new("", name), object).await?;
        }
        Ok(())
    }

    /// Emits events and updates the metrics.
    fn report_plan(&self, cluster: &Cluster, plan: &ClassPlan) {
        for served in plan.serve.iter().filter(|served| !served.is_there) {
            if let Some(class) = self.classes.get("", &served.name) {
                let nodes = served.nodes;
                let message = format!("created for {nodes} nodes with handler {}", class.handler);
                self.events.normal(&*class, "RuntimeClassMade", message);
            }
        }
        for kept in plan.keep.iter().filter(|kept| !kept.is_there) {
            if let Some(class) = self.classes.get("", &kept.name) {
                self.events
                    .warning(&*class, "RuntimeClassKept", kept.reason());
            }
        }
        for (node, withheld) in self.report.unreported(&plan.withheld) {
            if let Some(node) = self.nodes.get("", &node) {
                self.events
                    .warning(&*node, "RuntimeHandlerMissing", withheld.to_string());
            }
        }
        self.report.count(cluster, plan);
    }
}
