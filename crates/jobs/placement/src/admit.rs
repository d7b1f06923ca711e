//! What is answered about a pod that is made.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use api::placement::{Mode, OnNoMatch};
use serde_json::{Value, json};

use crate::change::Moment;
use crate::cluster::Cluster;
use crate::decide::{Decision, Placement, decide};
use crate::images::{Knowledge, Used};
use crate::names;
use crate::no_fit::NoFit;
use crate::policy::Policy;
use crate::settings::RuntimeClass;

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// These images have to be looked at first.
    Ask(Vec<Used>),
    /// It passes.
    Pass(Pass),
    /// It does not.
    Refuse {
        /// Why, in a word.
        reason: &'static str,
        /// Why, in a sentence.
        message: String,
    },
}

/// How a pod passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// What became of it, in a word.
    pub word: &'static str,
    /// The pod, if it is another one now.
    pub changed: Option<Value>,
    /// What whoever makes it is told.
    pub warnings: Vec<String>,
    /// What is written into the audit log.
    pub note: Option<String>,
}

impl Pass {
    /// As it is.
    fn unchanged(word: &'static str) -> Self {
        Self {
            word,
            changed: None,
            warnings: Vec::new(),
            note: None,
        }
    }
}

/// Answers about a pod that is made. `classes` are the RuntimeClasses of the cluster, by name.
pub fn admit(
    pod: &Value,
    policy: &Policy,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
) -> Answer {
    match decide(pod, known, classes, cluster, &policy.settings) {
        Decision::Ask(unknown) => Answer::Ask(unknown),
        Decision::Leave(why) => Answer::Pass(Pass::unchanged(why.as_str())),
        Decision::Place(placement) => Answer::Pass(placed(pod, policy, &placement)),
        Decision::NoFit(no_fit) => unfit(pod, policy, &no_fit),
    }
}

fn placed(pod: &Value, policy: &Policy, placement: &Placement) -> Pass {
    let told = told(placement);
    let mut pass = Pass {
        note: Some(format!("{PLACED}: {told}")),
        ..Pass::unchanged(PLACED)
    };
    if policy.mode == Mode::Place {
        let mut changed = pod.clone();
        if placement.write(&mut changed, Moment::Admission) {
            remark(&mut changed, PLACED, &told);
            pass.changed = Some(changed);
        }
    }
    pass
}

fn unfit(pod: &Value, policy: &Policy, no_fit: &NoFit) -> Answer {
    let reason = no_fit.shortfall.reason();
    let message = no_fit.to_string();
    let note = Some(format!("{reason}: {message}"));
    let warned = || Pass {
        warnings: vec![message.clone()],
        note: note.clone(),
        ..Pass::unchanged(reason)
    };
    let pass = match (policy.mode, policy.on_no_match) {
        (Mode::Audit, _) => Pass {
            note,
            ..Pass::unchanged(reason)
        },
        (Mode::Warn, _) => warned(),
        (Mode::Place, OnNoMatch::Reject) => return Answer::Refuse { reason, message },
        (Mode::Place, OnNoMatch::Hold) => {
            let mut changed = pod.clone();
            close(&mut changed);
            remark(&mut changed, reason, &message);
            Pass {
                changed: Some(changed),
                ..warned()
            }
        }
        (Mode::Place, OnNoMatch::Warn) => {
            let mut changed = pod.clone();
            if let Some(placement) = &no_fit.placement {
                placement.write(&mut changed, Moment::Admission);
            }
            remark(&mut changed, reason, &message);
            Pass {
                changed: Some(changed),
                ..warned()
            }
        }
    };
    Answer::Pass(pass)
}

/// The pod at the gate, while its images are looked at.
pub fn gated(pod: &Value, unknown: &[Used]) -> Value {
    let mut changed = pod.clone();
    close(&mut changed);
    let images: Vec<&str> = unknown.iter().map(|used| used.image.as_str()).collect();
    remark(
        &mut changed,
        names::WAITING,
        &format!("somebody looks what {} is for", images.join(", ")),
    );
    changed
}

/// The word for a pod that was told where to go.
pub(crate) const PLACED: &str = "Placed";

/// Where a pod goes, in a few words.
pub(crate) fn told(placement: &Placement) -> String {
    let all: Vec<&str> = placement.architectures().into_iter().collect();
    let where_to = if all.is_empty() {
        "where its runtime class is".to_owned()
    } else {
        format!("on {}", all.join(", "))
    };
    match &placement.runtime_class {
        Some(class) => format!("its images run {where_to} with the runtime class {class}"),
        None => format!("its images run {where_to}"),
    }
}

/// Puts the gate before a pod.
fn close(pod: &mut Value) {
    let gate = json!({ "name": names::GATE });
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let gates = spec.entry("schedulingGates").or_insert(Value::Null);
    if gates.is_null() {
        *gates = json!([]);
    }
    if let Some(gates) = gates.as_array_mut()
        && !gates.contains(&gate)
    {
        gates.push(gate);
    }
}

/// Writes on a pod why it is where it is: a word and a sentence.
pub(crate) fn remark(pod: &mut Value, word: &str, sentence: &str) {
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            let told = format!("{word}: {sentence}");
            annotations.insert(names::WHY.to_owned(), told.into());
        }
    }
}

/// What [`remark`] wrote: the word and the sentence.
pub fn remarked(annotations: &BTreeMap<String, String>) -> Option<(&str, &str)> {
    annotations.get(names::WHY)?.split_once(": ")
}
