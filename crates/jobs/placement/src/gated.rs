//! What becomes of a pod that waits at the gate.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::placement::{Mode, OnNoMatch};
use serde_json::{Value, json};

use crate::admit::{PLACED, remark, told};
use crate::change::Moment;
use crate::cluster::Cluster;
use crate::decide::{Decision, decide};
use crate::explain::left;
use crate::images::{Knowledge, Used, images};
use crate::names;
use crate::policy::Policy;
use crate::settings::RuntimeClass;

/// What becomes of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// These images have to be looked at first.
    Ask(Vec<Used>),
    /// It may go.
    Release {
        /// The pod without the gate, narrowed.
        pod: Value,
        /// What happened.
        notice: Notice,
    },
    /// It stays.
    Hold {
        /// The pod, with the reason written on it.
        pod: Value,
        /// What happened.
        notice: Notice,
    },
}

/// Something that happened to a pod, for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub warning: bool,
    /// What, in a word.
    pub reason: &'static str,
    /// What, in a sentence.
    pub message: String,
}

/// The word for a pod whose images nobody could look at.
pub const NOT_INSPECTED: &str = "ImageNotInspected";
/// The word for a pod that nobody wants to place any more.
const NOT_PLACED: &str = "NotPlaced";

/// Says what becomes of a pod at the gate. Without a policy it goes as it is: somebody has switched
/// placement off for it meanwhile.
pub fn settle(
    pod: &Value,
    policy: Option<&Policy>,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
) -> Settled {
    let Some(policy) = policy.filter(|policy| policy.mode == Mode::Place) else {
        return release(
            pod.clone(),
            false,
            NOT_PLACED,
            "no policy places it any more",
        );
    };
    let mut changed = pod.clone();
    match decide(pod, known, classes, cluster, &policy.later) {
        Decision::Ask(unknown) => Settled::Ask(unknown),
        Decision::Leave(why) => match uninspected(pod, known, policy) {
            Some(sentence) => release(changed, true, NOT_INSPECTED, &sentence),
            None => release(changed, false, NOT_PLACED, left(why)),
        },
        Decision::Place(placement) => {
            placement.write(&mut changed, Moment::Gated);
            match uninspected(pod, known, policy) {
                Some(sentence) => release(changed, true, NOT_INSPECTED, &sentence),
                None => release(changed, false, PLACED, &told(&placement)),
            }
        }
        Decision::NoFit(no_fit) => {
            let (reason, message) = (no_fit.shortfall.reason(), no_fit.to_string());
            // Nothing is taken away from somebody who was let in: what would be refused waits.
            if policy.on_no_match != OnNoMatch::Warn {
                remark(&mut changed, reason, &message);
                let notice = Notice {
                    warning: true,
                    reason,
                    message,
                };
                return Settled::Hold {
                    pod: changed,
                    notice,
                };
            }
            if let Some(placement) = &no_fit.placement {
                placement.write(&mut changed, Moment::Gated);
            }
            release(changed, true, reason, &message)
        }
    }
}

fn release(mut pod: Value, warning: bool, reason: &'static str, message: &str) -> Settled {
    remark(&mut pod, reason, message);
    open(&mut pod);
    Settled::Release {
        pod,
        notice: Notice {
            warning,
            reason,
            message: message.to_owned(),
        },
    }
}

/// Takes our gate away.
fn open(pod: &mut Value) {
    let gates = pod.pointer_mut("/spec/schedulingGates");
    if let Some(gates) = gates.and_then(Value::as_array_mut) {
        gates.retain(|gate| gate.get("name").and_then(Value::as_str) != Some(names::GATE));
    }
}

/// Whether a pod waits at our gate.
pub fn is_gated(pod: &Value) -> bool {
    let gates = pod.pointer("/spec/schedulingGates");
    let gates = gates.and_then(Value::as_array).into_iter().flatten();
    let mut names = gates.filter_map(|gate| gate.get("name").and_then(Value::as_str));
    names.any(|name| name == names::GATE)
}

/// What is told of images that nobody could look at, if there are any.
fn uninspected(
    pod: &Value,
    known: &BTreeMap<String, Knowledge>,
    policy: &Policy,
) -> Option<String> {
    let used = images(pod.get("spec").unwrap_or(&Value::Null));
    let mut failed: Vec<String> = used
        .iter()
        .filter_map(|used| match known.get(&used.image)? {
            Knowledge::Uninspectable(why) => Some(format!(
                "image {} of {} cannot be looked at: {}",
                used.image, used.by, why.message
            )),
            Knowledge::Platforms(_) | Knowledge::Anywhere => None,
        })
        .collect();
    failed.dedup();
    if failed.is_empty() {
        return None;
    }
    let then = match &policy.later.fallback_architecture {
        Some(architecture) => format!("it is taken for one of {architecture}"),
        None => "the pod goes where its other images run".to_owned(),
    };
    Some(format!("{}; {then}", failed.join("; ")))
}

/// The changes that make one pod of the other, as a JSON patch. Only what is ever written here is
/// looked at.
pub fn changes<'a>(before: &'a Value, after: &'a Value) -> Vec<Value> {
    const FIELDS: [(&str, &str); 5] = [
        ("metadata", "annotations"),
        ("spec", "affinity"),
        ("spec", "tolerations"),
        ("spec", "runtimeClassName"),
        ("spec", "schedulingGates"),
    ];
    let changed = FIELDS.iter().filter_map(|(part, field)| {
        let of = |pod: &'a Value| pod.get(part)?.get(field);
        let (old, new) = (of(before), of(after));
        if old == new {
            return None;
        }
        let path = format!("/{part}/{field}");
        match new {
            // What is not there means the same, and every server takes it.
            Some(Value::Array(list)) if list.is_empty() => {
                old.map(|_| json!({ "op": "remove", "path": path }))
            }
            Some(new) => Some(json!({ "op": "add", "path": path, "value": new })),
            None => old.map(|_| json!({ "op": "remove", "path": path })),
        }
    });
    changed.collect()
}
