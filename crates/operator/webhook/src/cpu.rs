//! Reviews of what CPU models depend on, so that an unmodified KubeVirt can leave the choice to Medley.
//!
//! ```text
//! VirtualMachine(Instance) CREATE --machine--> a warning if no model will do
//! launcher pod CREATE ---------------pod-----> without the label that no node has
//! instance UPDATE to Scheduled ------hand_off-> with its model, in the same write as node and phase
//! target pod of a migration CREATE --pod-----> with the labels that the model needs
//! ```
//!
//! KubeVirt takes `best-match-model` for the name of a model: it has launcher pods ask for a node with
//! that label, and would tell libvirt to use it. The first is taken out when the pod is made; the second
//! never happens, because the update that hands an instance to virt-handler already names the model that
//! was chosen.

mod hand_off;
mod machine;
mod pod;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kubevirt::{GROUP, VERSION, labels};
use cluster_view::cpu::Watch;
use cpu_models::names::{BEST_MATCH_MODEL, MODEL_LABEL};
use kube::Client;
use runtime::Manager;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::register::Check;
use crate::review::{Question, Refusal};

/// Where reviews of CPU models are answered.
pub(crate) const PATH: &str = "/cpu-models";
/// How long the nodes may take to be listed. The API server waits ten seconds for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// The plural of instances.
const INSTANCES: &str = "virtualmachineinstances";
/// The plural of virtual machines.
const MACHINES: &str = "virtualmachines";

/// What is known of the nodes; clones share it. Nothing is followed before somebody asks.
#[derive(Clone)]
pub(crate) struct CpuModels {
    client: Client,
    world: Arc<OnceCell<World>>,
}

struct World {
    watch: Watch,
    /// Keeps what the watch rests on running.
    manager: Manager,
}

impl CpuModels {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            world: Arc::default(),
        }
    }

    /// The kinds that have not been listed yet, of those that have been asked for.
    pub(crate) fn unsynced(&self) -> BTreeSet<String> {
        let world = self.world.get();
        world.map(|it| it.manager.unsynced()).unwrap_or_default()
    }

    /// The nodes and the settings, when all of them have been seen.
    pub(crate) async fn watch(&self) -> Result<&Watch, Refusal> {
        let start = || async {
            let manager = Manager::new(self.client.clone());
            World {
                watch: Watch::start(&manager),
                manager,
            }
        };
        let watch = &self.world.get_or_init(start).await.watch;
        match tokio::time::timeout(PATIENCE, watch.synced()).await {
            Ok(()) => Ok(watch),
            Err(_) => Err(Refusal::later(format!(
                "The nodes of the cluster could not be listed in {PATIENCE:?}; ask again"
            ))),
        }
    }
}

/// Answers a question about something that CPU models depend on.
pub(crate) async fn review(models: &CpuModels, mut question: Question) -> Result<Value, Refusal> {
    let old = question.old()?;
    if !question.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    let (group, plural) = (&*question.resource.group, &*question.resource.plural);
    match (group, plural) {
        ("", "pods") => {
            let namespace = question.namespace.as_deref().unwrap_or_default();
            pod::review(models, namespace, &question.object).await
        }
        (GROUP, INSTANCES) if hand_off::is_over(&question.object) => {
            hand_off::review(models, old.as_ref(), &question.object).await
        }
        (GROUP, INSTANCES) => machine::review(models, &question.object, "/spec").await,
        (GROUP, MACHINES) => machine::review(models, &question.object, "/spec/template/spec").await,
        _ => Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; pods, {INSTANCES}.{GROUP} and {MACHINES}.{GROUP} are decided on here"
        ))),
    }
}

/// What the API server asks about.
///
/// Two checks are `Fail`: without an answer, a pod would wait for a node that cannot exist, or a machine
/// would be started with a model that is none. KubeVirt tries both again until they pass. Both are so
/// narrow that nobody else waits for them. The others are `Ignore`.
pub(crate) fn checks() -> Vec<Check> {
    let of = |group: &str, version: &str, plurals: &[&str]| {
        json!({
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": plurals,
            "scope": "Namespaced",
        })
    };
    let condition =
        |name: &str, expression: &str| json!({ "name": name, "expression": expression });
    let asks = format!(
        "has(object.spec.nodeSelector) && '{MODEL_LABEL}{BEST_MATCH_MODEL}' in object.spec.nodeSelector"
    );
    let asks_not = format!("!({asks})");
    let has_model = |spec: &str| {
        format!("has({spec}.domain) && has({spec}.domain.cpu) && has({spec}.domain.cpu.model)")
    };
    let handed_over = format!(
        "has(object.status) && has(object.status.phase) && object.status.phase in ['{}'] && {} && object.spec.domain.cpu.model == '{BEST_MATCH_MODEL}'",
        hand_off::PHASES.join("', '"),
        has_model("object.spec"),
    );
    let chooses = |spec: &str| {
        format!(
            "!({}) || {spec}.domain.cpu.model in ['', '{BEST_MATCH_MODEL}']",
            has_model(spec)
        )
    };
    let check = |name: &str, failure_policy, seconds| Check {
        name: format!("{name}.cpu.medley.dev"),
        path: PATH,
        ..Check::changes(failure_policy, seconds)
    };
    vec![
        Check {
            rule: of("", "v1", &["pods"]),
            operations: &["CREATE"],
            objects: json!({ "matchLabels": { labels::APP: "virt-launcher" } }),
            conditions: vec![condition("asks-for-a-label-that-no-node-has", &asks)],
            ..check("launchers", "Fail", 10)
        },
        Check {
            rule: of(GROUP, VERSION, &[INSTANCES]),
            conditions: vec![condition("is-handed-over-without-a-model", &handed_over)],
            ..check("hand-off", "Fail", 10)
        },
        Check {
            rule: of("", "v1", &["pods"]),
            operations: &["CREATE"],
            objects: json!({ "matchExpressions": [
                { "key": labels::MIGRATION, "operator": "Exists" },
            ] }),
            conditions: vec![condition("is-not-checked-elsewhere", &asks_not)],
            ..check("targets", "Ignore", 5)
        },
        Check {
            rule: of(GROUP, VERSION, &[INSTANCES]),
            operations: &["CREATE"],
            conditions: vec![condition("leaves-the-choice", &chooses("object.spec"))],
            ..check("instances", "Ignore", 5)
        },
        Check {
            rule: of(GROUP, VERSION, &[MACHINES]),
            conditions: vec![condition(
                "leaves-the-choice",
                &chooses("object.spec.template.spec"),
            )],
            ..check("machines", "Ignore", 5)
        },
    ]
}
