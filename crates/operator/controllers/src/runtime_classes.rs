//! RuntimeClasses for the builds of Windows in the cluster.
//!
//! ```text
//! gather: nodes, RuntimeClasses, and pods of classes that should go
//!   decide: placement::runtime_classes::plan --> serve, remove, keep, withhold
//!     apply: the label of nodes whose kubelet did not set it; classes, by server-side apply
//!       report: events of nodes and classes, metrics; a class that is kept says why
//! ```

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use placement::runtime_classes::{ClassPlan, obsolete, plan};
use placement::{Cluster, names};
use runtime::{Absent as _, Cache, Change, Error, Events, Key, Manager, Next, Queue, Reconcile};
use serde::Serialize;
use serde_json::{Value, json};

use report::Report;

/// What the job is called: in logs, events and managed fields.
pub const COMPONENT: &str = "medley-runtime-classes";

/// How long is waited for more changes of nodes before classes are looked at.
const SETTLES: Duration = Duration::from_millis(200);
/// How often is looked whether a class that is kept for its pods is still used. Pods are not followed for
/// this: there are many, and hardly ever is a class to go.
const USED_AGAIN: Duration = Duration::from_secs(15);
/// Pods that are read at a time.
const PAGE: u32 = 500;

/// Starts the job; returns when nodes and classes have been seen.
pub async fn start(manager: &Manager) -> Result<(), Error> {
    let job = RuntimeClasses {
        client: manager.client(),
        nodes: manager.cache(),
        classes: manager.cache(),
        events: crate::words::events(manager, COMPONENT),
        report: Report::new(manager),
    };
    job.nodes.synced().await;
    job.classes.synced().await;
    let queue: Queue<Key> = Queue::new();
    // There is one thing to look at: all of them.
    let all = || Key::new("", "all");
    let to = queue.clone();
    job.nodes.on_change(move |change| {
        if concerns(change) {
            to.add_after(all(), SETTLES);
        }
    });
    let to = queue.clone();
    job.classes.on_change(move |_| to.add_after(all(), SETTLES));
    queue.add(all());
    manager.start(job, &queue, 1);
    Ok(())
}

/// Gives its metrics their names, and does nothing else.
pub(crate) fn declare(manager: &Manager) {
    drop(Report::new(manager));
}

/// Whether a change of a node is one that classes follow from. Nodes tell all the time that they are alive.
fn concerns(change: &Change<Node>) -> bool {
    let read = |side: &Option<Arc<Node>>| {
        let node = side.as_deref().filter(|node| is_windows(node))?;
        Some(placement::Node::read(&json!(node)))
    };
    read(&change.old) != read(&change.new)
}

fn is_windows(node: &Node) -> bool {
    let label = node.labels().get(names::OS).map(String::as_str);
    let info = node.status.as_ref().and_then(|it| it.node_info.as_ref());
    label.or_else(|| info.map(|info| info.operating_system.as_str())) == Some("windows")
}

struct RuntimeClasses {
    client: Client,
    nodes: Cache<Node>,
    classes: Cache<RuntimeClass>,
    events: Events,
    report: Report,
}

impl Reconcile for RuntimeClasses {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        let cluster = self.label().await?;
        let existing: Vec<Value> = self.classes.list().iter().map(json).collect();
        let users = self.users(&obsolete(&cluster, &existing)).await?;
        let plan = plan(&cluster, &existing, &users);
        self.apply(&plan).await?;
        self.told(&cluster, &plan);
        Ok(if plan.keep.is_empty() {
            Next::Wait
        } else {
            Next::After(USED_AGAIN)
        })
    }
}

/// An object as JSON, which it came as.
fn json<K: Serialize>(object: &Arc<K>) -> Value {
    json!(**object)
}

impl RuntimeClasses {
    /// Labels nodes whose kubelet did not say their build, and says what the Windows nodes are then.
    async fn label(&self) -> Result<Cluster, Error> {
        let mut cluster = Cluster::default();
        let nodes = self.nodes.list();
        for node in nodes.iter().filter(|node| is_windows(node)) {
            let mut read = placement::Node::read(&json(node));
            if let Some(build) = read.missing_build() {
                let name = node.name_any();
                let message = format!(
                    "its kubelet did not label it with its build of Windows: labelled {}={build}",
                    names::WINDOWS_BUILD
                );
                let patch = json!({ "metadata": { "labels": { names::WINDOWS_BUILD: build } } });
                let api: Api<Node> = Api::all(self.client.clone());
                let params = PatchParams {
                    field_manager: Some(COMPONENT.to_owned()),
                    ..PatchParams::default()
                };
                let labelled = api
                    .patch(&name, &params, &Patch::Merge(patch))
                    .await
                    .or_absent()
                    .map_err(Error::api(format!(
                        "labelling node {name} with its build of Windows"
                    )))?;
                let Some(labelled) = labelled else {
                    continue;
                };
                self.nodes.saw(&labelled).await;
                self.events.normal(&**node, "WindowsBuildLabelled", message);
                read = placement::Node::read(&json!(labelled));
            }
            cluster.upsert(read);
        }
        Ok(cluster)
    }

    /// How many pods use these classes; pods that have ended do not.
    async fn users(&self, classes: &BTreeSet<String>) -> Result<BTreeMap<String, usize>, Error> {
        let mut users = BTreeMap::new();
        if classes.is_empty() {
            return Ok(users);
        }
        let api: Api<Pod> = Api::all(self.client.clone());
        let mut params = ListParams::default()
            .fields("status.phase!=Succeeded,status.phase!=Failed")
            .limit(PAGE);
        loop {
            let page = api.list(&params).await.map_err(Error::api(
                "listing pods to see which runtime classes they use",
            ))?;
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

    /// Removes classes, then makes and changes them.
    async fn apply(&self, plan: &ClassPlan) -> Result<(), Error> {
        let api: Api<RuntimeClass> = Api::all(self.client.clone());
        for name in &plan.remove {
            let Some(class) = self.classes.get("", name) else {
                continue;
            };
            let options = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: class.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            api.delete(name, &options)
                .await
                .or_absent()
                .map_err(Error::api(format!("removing RuntimeClass {name}")))?;
            self.classes.saw_deletion(&class.metadata).await;
        }
        let kept = plan.keep.iter().filter(|kept| !kept.is_there);
        let kept = kept.map(|kept| (&kept.name, &kept.object));
        let served = plan.serve.iter().filter(|served| !served.is_there);
        let served = served.map(|served| (&served.name, &served.object));
        for (name, object) in served.chain(kept) {
            let params = PatchParams::apply(COMPONENT).force();
            let written = api
                .patch(name, &params, &Patch::Apply(object))
                .await
                .map_err(Error::api(format!("applying RuntimeClass {name}")))?;
            self.classes.saw(&written).await;
        }
        Ok(())
    }

    /// Tells what became of classes, and counts.
    fn told(&self, cluster: &Cluster, plan: &ClassPlan) {
        for served in plan.serve.iter().filter(|served| !served.is_there) {
            if let Some(class) = self.classes.get("", &served.name) {
                let nodes = served.nodes;
                let message = format!("made for {nodes} nodes with handler {}", class.handler);
                self.events.normal(&*class, "RuntimeClassMade", message);
            }
        }
        for kept in plan.keep.iter().filter(|kept| !kept.is_there) {
            if let Some(class) = self.classes.get("", &kept.name) {
                self.events
                    .warning(&*class, "RuntimeClassKept", kept.reason());
            }
        }
        for (node, withheld) in self.report.news(&plan.withheld) {
            if let Some(node) = self.nodes.get("", &node) {
                self.events
                    .warning(&*node, "RuntimeHandlerMissing", withheld.to_string());
            }
        }
        self.report.count(cluster, plan);
    }
}
