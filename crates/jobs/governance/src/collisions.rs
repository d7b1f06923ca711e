//! Collisions: other controllers that set the fields that a plan changes, and how each is made to leave them alone.
//!
//! A takeover names a field manager. That is not enough to decide: a takeover from a person is final, one from a controller
//! is undone at its next reconcile, and the two correct each other for ever. A controller is recognised by its field
//! managers and by the marks it leaves on the objects it applies.

#[cfg(test)]
mod tests;

use std::fmt;

use api::advisor::{FIELD_MANAGER, Item, Operation, ProfileOptions, TargetRef};
use api::operators::GenuineOperator;
use kube_core::DynamicObject;
use serde_json::Value;

use crate::ownership::{self, Conflict};
use crate::profile::Registry;
use crate::snapshot::{Snapshot, whole};

/// A target of a plan, and a controller that sets the same fields of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// The target.
    pub target: TargetRef,
    /// The other controller.
    pub rival: Rival,
    /// The fields that both set. Empty if only the marks on the target name the controller: whether it sets these fields is
    /// known to its source alone.
    pub fields: Vec<String>,
}

/// A controller that reverts changes of others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rival {
    /// The virt-platform-autopilot, which applies its assets by force.
    Autopilot,
    /// Argo CD, which syncs an Application.
    ArgoCd {
        /// The name of the Application, if the target has it.
        application: Option<String>,
    },
    /// Flux, which applies a Kustomization.
    Flux {
        /// `NAMESPACE/NAME` of the Kustomization, if the target has it.
        kustomization: Option<String>,
    },
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Autopilot => f.write_str("the virt-platform-autopilot"),
            Self::ArgoCd { application: None } => f.write_str("Argo CD"),
            Self::ArgoCd {
                application: Some(name),
            } => write!(f, "Argo CD (Application {name})"),
            Self::Flux {
                kustomization: None,
            } => f.write_str("Flux"),
            Self::Flux {
                kustomization: Some(name),
            } => write!(f, "Flux (Kustomization {name})"),
        }
    }
}

/// The operator of the virt-platform-autopilot (`config/manager` and `cmd/main.go` of
/// openshift-virtualization/virt-platform-autopilot).
pub const AUTOPILOT_OPERATOR: GenuineOperator = GenuineOperator {
    title: "the virt-platform-autopilot",
    deployment: "virt-platform-autopilot",
    lease: Some("virt-platform-autopilot.kubevirt.io"),
    namespaces: &[],
};

/// Field manager of the virt-platform-autopilot, and the value of its label.
const AUTOPILOT: &str = "virt-platform-autopilot";
/// Its label on the objects it applies (`ManagedByLabel` in pkg/engine/applier.go).
const AUTOPILOT_LABEL: &str = "platform.kubevirt.io/managed-by";
/// Annotations that make it leave an object alone, and the value of each. The first is that of newer versions; the last is
/// set by itself when it meets another controller that reverts it.
const AUTOPILOT_OFF: [(&str, &str); 3] = [
    ("platform.kubevirt.io/management-state", "Unmanaged"),
    ("platform.kubevirt.io/mode", "unmanaged"),
    ("platform.kubevirt.io/reconcile-paused", "true"),
];
/// Annotation that makes it leave fields alone: JSON pointers, separated by commas.
const AUTOPILOT_IGNORED: &str = "platform.kubevirt.io/ignore-fields";

/// Field managers of Argo CD: of server-side apply, and of updates by its controller.
const ARGO_CD: [&str; 2] = ["argocd-controller", "argocd-application-controller"];
/// Argo CD's annotation on the objects of an Application: `APPLICATION:GROUP/KIND:NAMESPACE/NAME`.
const ARGO_CD_ID: &str = "argocd.argoproj.io/tracking-id";
/// Its label, where it tracks by label. Others use the label as well, so it counts only beside its field managers.
const ARGO_CD_LABEL: &str = "app.kubernetes.io/instance";

/// Field manager of Flux' kustomize-controller.
const FLUX: &str = "kustomize-controller";
/// Its labels on the objects it applies.
const FLUX_LABELS: [&str; 2] = [
    "kustomize.toolkit.fluxcd.io/namespace",
    "kustomize.toolkit.fluxcd.io/name",
];
/// Its annotation that makes it leave an object alone.
const FLUX_OFF: (&str, &str) = ("kustomize.toolkit.fluxcd.io/reconcile", "disabled");

/// The controllers that would revert an item. `live` is its target, `conflicts` are the fields that the item takes from
/// other managers.
pub fn collisions(item: &Item, live: Option<&Value>, conflicts: &[Conflict]) -> Vec<Collision> {
    // A target that does not exist has no other owner, and an item that changes nothing takes nothing away.
    let Some(live) = live.filter(|_| !item.unchanged) else {
        return Vec::new();
    };
    let of = |managers: &[&str]| -> Vec<String> {
        let conflicts = conflicts.iter();
        let taken = conflicts.filter(|it| managers.contains(&it.manager.as_str()));
        let mut fields: Vec<String> = taken.map(|it| it.path.clone()).collect();
        fields.sort();
        fields.dedup();
        fields
    };
    // A deletion has no conflicts: the object as a whole is what both decide about.
    let owns = |managers: &[&str]| item.operation != Operation::Apply && manages(live, managers);
    [
        autopilot(live, of(&[AUTOPILOT]), owns(&[AUTOPILOT])),
        argo_cd(live, of(&ARGO_CD), owns(&ARGO_CD)),
        flux(live, of(&[FLUX]), owns(&[FLUX])),
    ]
    .into_iter()
    .flatten()
    .map(|(rival, fields)| Collision {
        target: item.target_ref.clone(),
        rival,
        fields,
    })
    .collect()
}

/// The controllers that manage a live target, before there is a plan: by the owners of the fields that a profile sets.
pub fn standing(target: &TargetRef, managed: &[String], live: &DynamicObject) -> Vec<Collision> {
    let conflicts = managed.iter().flat_map(|path| {
        let owners = ownership::owners(&live.metadata, path).into_iter();
        owners.map(|owner| Conflict {
            manager: owner.manager,
            path: path.clone(),
            since: owner.time,
        })
    });
    let conflicts: Vec<Conflict> = conflicts.collect();
    let item = Item {
        target_ref: target.clone(),
        ..Item::default()
    };
    collisions(&item, Some(&whole(live)), &conflicts)
}

/// The controllers that manage live targets of profiles with their default options, each target once.
pub fn of_profiles(registry: &Registry, snapshot: &Snapshot) -> Vec<Collision> {
    let mut found: Vec<Collision> = Vec::new();
    for profile in registry.iter() {
        // A profile without its prerequisites has no targets.
        let Ok(intents) = profile.intents(&ProfileOptions::default(), snapshot) else {
            continue;
        };
        for intent in &intents.items {
            let Some(live) = snapshot.target(&intent.target) else {
                continue;
            };
            for collision in standing(&intent.target, &intent.managed, live) {
                let known =
                    |it: &Collision| it.target == collision.target && it.rival == collision.rival;
                if !found.iter().any(known) {
                    found.push(collision);
                }
            }
        }
    }
    found
}

type Found = Option<(Rival, Vec<String>)>;

fn autopilot(live: &Value, mut fields: Vec<String>, owns: bool) -> Found {
    let off = |(name, value): &(&str, &str)| annotation(live, name) == Some(value);
    if AUTOPILOT_OFF.iter().any(off) {
        return None;
    }
    let is_marked = label(live, AUTOPILOT_LABEL) == Some(AUTOPILOT);
    if fields.is_empty() {
        return (is_marked || owns).then_some((Rival::Autopilot, fields));
    }
    let ignored = annotation(live, AUTOPILOT_IGNORED).unwrap_or_default();
    let ignored: Vec<String> = ignored.split(',').map(dotted).collect();
    fields.retain(|field| !ignored.iter().any(|top| lies_at(field, top)));
    (!fields.is_empty()).then_some((Rival::Autopilot, fields))
}

fn argo_cd(live: &Value, fields: Vec<String>, owns: bool) -> Found {
    let id = annotation(live, ARGO_CD_ID);
    let by_manager = !fields.is_empty() || owns;
    let application = id
        .and_then(|id| id.split(':').next())
        .or_else(|| label(live, ARGO_CD_LABEL))
        .filter(|name| !name.is_empty());
    (by_manager || id.is_some()).then(|| {
        let application = application.map(str::to_owned);
        (Rival::ArgoCd { application }, fields)
    })
}

fn flux(live: &Value, fields: Vec<String>, owns: bool) -> Found {
    if annotation(live, FLUX_OFF.0) == Some(FLUX_OFF.1) {
        return None;
    }
    let [namespace, name] = FLUX_LABELS.map(|name| label(live, name));
    let kustomization = namespace
        .zip(name)
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    let by_manager = !fields.is_empty() || owns;
    (by_manager || kustomization.is_some()).then_some((Rival::Flux { kustomization }, fields))
}

/// Whether any of these managers owns a field of an object, outside its status.
fn manages(live: &Value, managers: &[&str]) -> bool {
    let entries = live.pointer("/metadata/managedFields");
    let mut entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.any(|entry| {
        let manager = entry.get("manager").and_then(Value::as_str);
        let is_status = entry.get("subresource").and_then(Value::as_str) == Some("status");
        !is_status && manager.is_some_and(|it| managers.contains(&it))
    })
}

fn annotation<'a>(live: &'a Value, name: &str) -> Option<&'a str> {
    live.get("metadata")?
        .get("annotations")?
        .get(name)?
        .as_str()
}

fn label<'a>(live: &'a Value, name: &str) -> Option<&'a str> {
    live.get("metadata")?.get("labels")?.get(name)?.as_str()
}

/// A JSON pointer as a path of ours: `/spec/a~1b` is `spec.a/b`.
fn dotted(pointer: &str) -> String {
    let segments = pointer.trim().trim_start_matches('/').split('/');
    let segments = segments.map(|it| it.replace("~1", "/").replace("~0", "~"));
    segments.collect::<Vec<_>>().join(".")
}

/// Whether a field is the given one, or below it.
fn lies_at(field: &str, top: &str) -> bool {
    !top.is_empty()
        && field
            .strip_prefix(top)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl Collision {
    /// The command or the setting that makes the other controller leave the fields alone.
    pub fn remedy(&self) -> String {
        let target = &self.target;
        let annotate = |annotations: &str| {
            let namespace = target.namespace.as_ref();
            let namespace = namespace.map(|it| format!(" -n {it}")).unwrap_or_default();
            format!(
                "kubectl annotate {} {}{namespace} {annotations}",
                target.kind.to_lowercase(),
                target.name
            )
        };
        match &self.rival {
            // Both annotations: which one it reads depends on its version.
            Rival::Autopilot => annotate(
                "platform.kubevirt.io/management-state=Unmanaged platform.kubevirt.io/mode=unmanaged",
            ),
            Rival::ArgoCd { application } => {
                let group = target
                    .api_version
                    .split_once('/')
                    .map_or("", |(group, _)| group);
                let application = application.as_deref().unwrap_or("the Application");
                format!(
                    "add {{group: {group:?}, kind: {}, name: {}, managedFieldsManagers: [{FIELD_MANAGER}]}} to spec.ignoreDifferences of {application}, with the sync option RespectIgnoreDifferences=true, or remove the fields from its source",
                    target.kind, target.name
                )
            }
            Rival::Flux { .. } => {
                let (name, value) = FLUX_OFF;
                format!(
                    "remove the fields from its source, or {}",
                    annotate(&format!("{name}={value}"))
                )
            }
        }
    }
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            rival,
            fields,
        } = self;
        match fields.as_slice() {
            [] => write!(
                f,
                "{target} is managed by {rival}, which reverts this plan if it sets the same fields"
            )?,
            fields => write!(
                f,
                "{target} is managed by {rival}, which sets {} and reverts this plan",
                fields.join(", ")
            )?,
        }
        write!(f, "; to stop it: {}", self.remedy())
    }
}
