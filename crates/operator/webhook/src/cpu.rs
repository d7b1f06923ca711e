//! Admission for CPU models: lets an unmodified KubeVirt leave the choice to Medley.
//!
//! ```text
//! VirtualMachine(Instance) CREATE --machine--> a warning if no model fits
//! launcher pod CREATE ---------------pod-----> without the label that no node has
//! instance UPDATE to Scheduled ------hand_off-> with its model, in the same write as node and phase
//! target pod of a migration CREATE --pod-----> with the labels that the model needs
//! ```
//!
//! KubeVirt takes `best-match-model` for the name of a model: it would select nodes with that label for launcher pods,
//! and configure libvirt with it. Admission removes the node selector when the pod is created; libvirt never sees the
//! name, because the update that hands an instance to virt-handler already carries the chosen model.

mod hand_off;
mod machine;
mod pod;

use std::sync::{Arc, OnceLock};

use api::kubevirt::{GROUP, VERSION, labels};
use cluster_view::cpu::CpuView;
use cpu_models::admission::{HANDED_OVER, is_handed_over};
use cpu_models::names::{BEST_MATCH_MODEL, MODEL_LABEL, REQUESTED_MODEL_ANNOTATION};
use kube::Client;
use serde_json::{Value, json};

use crate::register::WebhookRegistration;
use crate::review::{AdmissionRequest, Refusal};
use crate::watches::Watches;

/// Path of the webhook.
pub(crate) const PATH: &str = "/cpu-models";
/// Resource name of instances.
const INSTANCES: &str = "virtualmachineinstances";
/// Resource name of virtual machines.
const MACHINES: &str = "virtualmachines";

/// View of the nodes, shared by clones; watches start with the first review.
#[derive(Clone)]
pub(crate) struct CpuModels {
    watches: Watches,
    view: Arc<OnceLock<CpuView>>,
}

impl CpuModels {
    pub(crate) fn new(watches: Watches) -> Self {
        Self {
            watches,
            view: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        self.watches.client.clone()
    }

    /// Whether VMs without a model get `best-match-model`; true while it is not known, so that none is missed.
    pub(crate) async fn is_default(&self) -> bool {
        let view = self.watch().await.ok();
        view.is_none_or(|view| {
            let default = view.settings().default_model.clone();
            default.as_deref() == Some(BEST_MATCH_MODEL)
        })
    }

    /// Nodes and settings, once synced.
    pub(crate) async fn watch(&self) -> Result<&CpuView, Refusal> {
        let start = || CpuView::start(self.watches.manager());
        let view = self.view.get_or_init(start);
        self.watches.wait(view.synced()).await?;
        Ok(view)
    }
}

/// Answers a review.
pub(crate) async fn review(
    models: &CpuModels,
    mut request: AdmissionRequest,
) -> Result<Value, Refusal> {
    let old = request.old()?;
    if !request.object.is_object() {
        return Err(Refusal::bad("The request has no object"));
    }
    let (group, plural) = (&*request.resource.group, &*request.resource.resource);
    match (group, plural) {
        ("", "pods") => {
            let namespace = request.namespace.as_deref().unwrap_or_default();
            pod::review(models, namespace, &request.object).await
        }
        (GROUP, INSTANCES) if is_handed_over(&request.object) => {
            hand_off::review(models, old.as_ref(), &request.object).await
        }
        (GROUP, INSTANCES) => machine::review(models, &request.object, "/spec").await,
        (GROUP, MACHINES) => machine::review(models, &request.object, "/spec/template/spec").await,
        _ => Err(Refusal::bad(format!(
            "The request is about {plural}.{group}; pods, {INSTANCES}.{GROUP} and {MACHINES}.{GROUP} are accepted"
        ))),
    }
}

/// Webhooks to register.
///
/// Two of them are `Fail`: without an answer a pod would wait for a node that cannot exist, or a virtual machine would
/// start with an invalid model. KubeVirt retries both. Their match conditions are so narrow that no other request waits
/// for them. The others are `Ignore`, and are called only for VMs that leave the choice to Medley: a hung webhook delays
/// no other.
///
/// `by_default` is whether VMs without a model get `best-match-model`.
pub(crate) fn webhooks(by_default: bool) -> Vec<WebhookRegistration> {
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
    // KubeVirt copies the annotations of a VMI to its pods.
    let is_ours = format!(
        "has(object.metadata.annotations) && '{REQUESTED_MODEL_ANNOTATION}' in object.metadata.annotations && !({asks})"
    );
    let has_model = |spec: &str| {
        format!("has({spec}.domain) && has({spec}.domain.cpu) && has({spec}.domain.cpu.model)")
    };
    let in_phase = format!(
        "has(object.status) && has(object.status.phase) && object.status.phase in ['{}']",
        HANDED_OVER.join("', '"),
    );
    // Never true for a KubeVirt whose CRD does not have the field.
    let drops_model = format!(
        "{in_phase} && !has(object.status.prefferedModel) && has(oldObject.status) && has(oldObject.status.prefferedModel)"
    );
    let handed_over = format!(
        "{in_phase} && {} && object.spec.domain.cpu.model == '{BEST_MATCH_MODEL}'",
        has_model("object.spec"),
    );
    let chooses = |spec: &str| {
        let has_model = has_model(spec);
        if by_default {
            format!("!({has_model}) || {spec}.domain.cpu.model in ['', '{BEST_MATCH_MODEL}']")
        } else {
            format!("{has_model} && {spec}.domain.cpu.model == '{BEST_MATCH_MODEL}'")
        }
    };
    let webhook = |name: &str, failure_policy, seconds| WebhookRegistration {
        name: format!("{name}.cpu.medley.dev"),
        path: PATH,
        ..WebhookRegistration::changes(failure_policy, seconds)
    };
    vec![
        WebhookRegistration {
            rule: of("", "v1", &["pods"]),
            operations: &["CREATE"],
            objects: json!({ "matchLabels": { labels::APP: "virt-launcher" } }),
            // A CEL match condition, evaluated in the API server: pods that do not concern us never leave it, so a
            // `Fail` webhook that is down blocks nothing but launchers with this model.
            conditions: vec![condition("asks-for-a-label-that-no-node-has", &asks)],
            // `Fail` with the API server's default timeout: KubeVirt retries the creation of a launcher, while a pod
            // with a selector that no node matches would stay Pending and has to be deleted.
            ..webhook("launchers", "Fail", 10)
        },
        WebhookRegistration {
            rule: of(GROUP, VERSION, &[INSTANCES]),
            conditions: vec![condition("is-handed-over-without-a-model", &handed_over)],
            ..webhook("hand-off", "Fail", 10)
        },
        WebhookRegistration {
            rule: of("", "v1", &["pods"]),
            operations: &["CREATE"],
            objects: json!({ "matchExpressions": [
                { "key": labels::MIGRATION, "operator": "Exists" },
            ] }),
            conditions: vec![condition("has-a-chosen-model", &is_ours)],
            // A migration without our labels still works between most nodes; blocking evacuations because the webhook
            // is down would stop node drains.
            ..webhook("targets", "Ignore", 3)
        },
        WebhookRegistration {
            rule: of(GROUP, VERSION, &[INSTANCES]),
            operations: &["CREATE"],
            conditions: vec![condition("leaves-the-choice", &chooses("object.spec"))],
            ..webhook("instances", "Ignore", 3)
        },
        WebhookRegistration {
            rule: of(GROUP, VERSION, &[MACHINES]),
            conditions: vec![condition(
                "leaves-the-choice",
                &chooses("object.spec.template.spec"),
            )],
            ..webhook("machines", "Ignore", 3)
        },
        WebhookRegistration {
            rule: of(GROUP, VERSION, &[INSTANCES]),
            operations: &["UPDATE"],
            conditions: vec![condition("drops-the-model", &drops_model)],
            ..webhook("status", "Ignore", 3)
        },
    ]
}
