//! `node-health-remediation`: worker nodes that stay unhealthy are fenced and recovered, so that their VMs can start
//! elsewhere. Disabled by default.

#[cfg(test)]
mod tests;

use api::advisor::{Drift, Impact, ProfileOptions, TargetRef};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::adoption::{self, Edit};
use super::kinds::{NODE_HEALTH_CHECK, NODE_HEALTH_CHECKS};
use super::{Access, KindUse, Prerequisite, Profile, ProfileInfo, Refusal, impact, settings};
use crate::intent::{Intent, Intents};
use crate::snapshot::{GroupKind, Snapshot};

const OPTIONS_MEMBER: &str = "nodeHealth";
const ITEM: &str = "configure-node-health-check";
// The name that virt-platform-autopilot uses (assets/active/node-remediation/nhc-far.yaml): under another one, nodes
// would be checked twice.
const CHECK: &str = "far";

const ABOUT: ProfileInfo = ProfileInfo {
    name: "node-health-remediation",
    description: "Enables remediation of unhealthy worker nodes so that their VMs can restart elsewhere",
    category: "availability",
    impact_summary: "Medium - Nodes that stay unhealthy are fenced and rebooted",
    impact: Impact::Medium,
    documentation_url: "https://github.com/medley-dev/medley/blob/main/docs/profiles/node-health-remediation.md",
    advertised: true,
};

/// The remediation methods, by the kind of their templates. All have one version.
const TEMPLATES: [KindUse; 4] = [
    template(
        "fence-agents-remediation.medik8s.io",
        "FenceAgentsRemediationTemplate",
        "fenceagentsremediationtemplates",
    ),
    template(
        "self-node-remediation.medik8s.io",
        "SelfNodeRemediationTemplate",
        "selfnoderemediationtemplates",
    ),
    template(
        "machine-deletion-remediation.medik8s.io",
        "MachineDeletionRemediationTemplate",
        "machinedeletionremediationtemplates",
    ),
    template(
        "storage-based-remediation.medik8s.io",
        "StorageBasedRemediationTemplate",
        "storagebasedremediationtemplates",
    ),
];
const TEMPLATE_VERSION: &str = "v1alpha1";

const fn template(group: &'static str, kind: &'static str, plural: &'static str) -> KindUse {
    KindUse {
        of: GroupKind { group, kind },
        versions: &[TEMPLATE_VERSION],
        plural,
        access: Access::Read,
        named: None,
    }
}

/// The profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeHealthRemediation;

/// The options with their defaults.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    min_healthy: String,
    unhealthy_seconds: i32,
    remediation_template: String,
    remediation_kind: String,
    remediation_namespace: String,
}

impl Profile for NodeHealthRemediation {
    fn about(&self) -> &ProfileInfo {
        &ABOUT
    }

    fn uses(&self) -> &[KindUse] {
        const {
            let [agents, itself, deletion, storage] = TEMPLATES;
            &[NODE_HEALTH_CHECKS, agents, itself, deletion, storage]
        }
    }

    fn prerequisites(&self, options: &ProfileOptions) -> Vec<Prerequisite> {
        let mut all = vec![Prerequisite {
            of: NODE_HEALTH_CHECK,
            version: "v1alpha1",
            remedy: "Please install the Node Health Check Operator via OLM",
        }];
        let settings = settings::complete::<Settings>(OPTIONS_MEMBER, options.node_health.as_ref());
        // Invalid options are reported by `intents`.
        if let Ok(template_kind) =
            settings.and_then(|settings| template_kind(&settings.remediation_kind))
        {
            all.push(Prerequisite {
                of: template_kind,
                version: TEMPLATE_VERSION,
                remedy: "Please install the operator that remediates with this template via OLM",
            });
        }
        all
    }

    fn intents(&self, options: &ProfileOptions, snapshot: &Snapshot) -> Result<Intents, Refusal> {
        let settings: Settings = settings::complete(OPTIONS_MEMBER, options.node_health.as_ref())?;
        let template_kind = template_kind(&settings.remediation_kind)?;
        let mut warnings = Vec::new();
        let (namespace, name) = (
            &settings.remediation_namespace,
            &settings.remediation_template,
        );
        // A warning and no refusal: the template may be installed later, and the NodeHealthCheck is Disabled until
        // then, which the health check reports.
        if snapshot.get(template_kind, namespace, name).is_none() {
            warnings.push(format!(
                "{} {namespace}/{name} does not exist: nodes are not remediated until it does",
                template_kind.kind
            ));
        }
        let target = TargetRef {
            api_version: format!("{}/v1alpha1", NODE_HEALTH_CHECK.group),
            kind: NODE_HEALTH_CHECK.kind.to_owned(),
            name: CHECK.to_owned(),
            namespace: None,
        };
        let desired = json!({
            "apiVersion": target.api_version,
            "kind": target.kind,
            "metadata": { "name": target.name },
            "spec": {
                "selector": { "matchExpressions": [
                    { "key": "node-role.kubernetes.io/worker", "operator": "Exists" },
                ]},
                "unhealthyConditions": unhealthy(settings.unhealthy_seconds),
                "minHealthy": min_healthy(&settings.min_healthy),
                "remediationTemplate": {
                    "apiVersion": format!("{}/{TEMPLATE_VERSION}", template_kind.group),
                    "kind": template_kind.kind,
                    "name": name,
                    "namespace": namespace,
                },
            },
        });
        let managed = [
            "selector",
            "unhealthyConditions",
            "minHealthy",
            "remediationTemplate",
        ];
        let item = Intent {
            name: ITEM,
            impact: impact::of_change(&target, &desired, snapshot, Impact::Medium),
            target,
            desired,
            managed: managed.iter().map(|name| format!("spec.{name}")).collect(),
            message: format!(
                "NodeHealthCheck '{CHECK}' will be configured to remediate with {} '{name}'",
                template_kind.kind
            ),
            depends_on: Vec::new(),
        };
        Ok(Intents {
            items: vec![item],
            warnings,
            ..Intents::default()
        })
    }

    fn adopt(&self, options: &ProfileOptions, drift: &Drift) -> Result<ProfileOptions, String> {
        adoption::adopt(drift, |edits| {
            let mut changes = Map::new();
            for edit in edits {
                let (name, value) = option_for(edit)?;
                changes.insert(name.to_owned(), value);
            }
            let amended = settings::amend(OPTIONS_MEMBER, options.node_health.as_ref(), changes)?;
            let kind = amended.remediation_kind.as_deref();
            kind.map(template_kind)
                .transpose()
                .map_err(|refusal| refusal.to_string())?;
            Ok(ProfileOptions {
                node_health: Some(amended),
                ..options.clone()
            })
        })
    }
}

/// The option that requests the manually set value.
fn option_for(edit: &Edit<'_>) -> Result<(&'static str, Value), String> {
    match edit.path.as_str() {
        "spec.minHealthy" => {
            let value = edit.value()?;
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            Ok(("minHealthy", json!(text)))
        }
        "spec.unhealthyConditions" => {
            let value = edit.value()?;
            // The list is adopted only if the option reproduces it exactly: other durations or conditions would be
            // lost.
            let seconds = seconds_of(value).filter(|seconds| unhealthy(*seconds) == *value);
            let seconds = seconds.ok_or(
                "the options have one duration in seconds for Ready=False, Ready=Unknown and SBRStorageUnhealthy=True",
            )?;
            Ok(("unhealthySeconds", json!(seconds)))
        }
        "spec.remediationTemplate.name" => Ok(("remediationTemplate", edit.value()?.clone())),
        "spec.remediationTemplate.namespace" => Ok(("remediationNamespace", edit.value()?.clone())),
        _ => Err(edit.without_option(ABOUT.name)),
    }
}

/// The template kind of this name.
fn template_kind(kind: &str) -> Result<GroupKind, Refusal> {
    let known = TEMPLATES.iter().map(|uses| uses.of);
    known.clone().find(|of| of.kind == kind).ok_or_else(|| {
        let known: Vec<&str> = known.map(|of| of.kind).collect();
        Refusal::Options(format!(
            "options.nodeHealth.remediationKind: '{kind}' is not known, only {}",
            known.join(", ")
        ))
    })
}

/// The conditions of an unhealthy node.
fn unhealthy(seconds: i32) -> Value {
    let duration = format!("{seconds}s");
    json!([
        { "type": "Ready", "status": "False", "duration": duration },
        { "type": "Ready", "status": "Unknown", "duration": duration },
        // Set by storage-based remediation; harmless where it is not installed, because nodes do not have the
        // condition.
        { "type": "SBRStorageUnhealthy", "status": "True", "duration": duration },
    ])
}

/// The duration of the first condition in seconds.
fn seconds_of(conditions: &Value) -> Option<i32> {
    let duration = conditions.pointer("/0/duration")?.as_str()?;
    duration.strip_suffix('s')?.parse().ok()
}

/// `minHealthy` is an IntOrString: only percentages are strings.
fn min_healthy(text: &str) -> Value {
    text.parse::<u32>()
        .map_or_else(|_| json!(text), |number| json!(number))
}
