//! What a program wrote while a story was played, and the comparison with the recorded file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compare::{Difference, differences, leaves};

/// Set to `1`, recordings are written instead of compared.
const RECORD: &str = "MEDLEY_RECORD";

/// What a program wrote while a story was played.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The program and its version; empty for a stand-in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recorded_from: String,
    /// The steps of the story.
    pub steps: Vec<Step>,
    /// Fields that were written and removed again within a step, by object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub passing: BTreeMap<String, BTreeSet<String>>,
}

/// What a program wrote in one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The name of the step.
    pub step: String,
    /// The objects in the order in which they were first written, if the subject asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// The objects that differ from the end of the last step, with the fields of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, Value>,
    /// The objects of the last step that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// The values that followed fields took.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sequences: BTreeMap<String, Vec<Value>>,
}

/// What a stand-in does not imitate, and is not compared.
#[derive(Debug, Clone, Copy)]
pub struct LeftOut {
    /// The object as a trace names it, such as `Deployment NAMESPACE/NAME`; or the beginning of it, before `*`.
    pub object: &'static str,
    /// The field with all below it, such as `spec.template.spec`; empty for the whole object.
    pub field: &'static str,
}

impl LeftOut {
    fn covers_object(&self, object: &str) -> bool {
        match self.object.strip_suffix('*') {
            Some(prefix) => object.starts_with(prefix),
            None => object == self.object,
        }
    }

    fn covers_field(&self, field: &str) -> bool {
        let below = field.strip_prefix(self.field);
        self.field.is_empty()
            || below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[', '/']))
    }

    fn covers(&self, difference: &Difference) -> bool {
        self.covers_object(&difference.object) && self.covers_field(&difference.field)
    }
}

impl Trace {
    pub(super) fn new(steps: Vec<Step>, passing: BTreeMap<String, BTreeSet<String>>) -> Self {
        Self {
            recorded_from: String::new(),
            steps,
            passing,
        }
    }

    /// Compares what the genuine program wrote with the file, or writes the file if `MEDLEY_RECORD=1`. `recorded_from` is
    /// the [version](crate::peer_version) of the program.
    pub fn assert_recorded(mut self, path: &Path, recorded_from: &str) -> anyhow::Result<()> {
        recorded_from.clone_into(&mut self.recorded_from);
        let mut text = serde_json::to_string_pretty(&self).context("encoding a trace")?;
        text.push('\n');
        if std::env::var(RECORD).is_ok_and(|value| value == "1") {
            let folder = path.parent().context("a recording is in a folder")?;
            std::fs::create_dir_all(folder)
                .with_context(|| format!("creating {}", folder.display()))?;
            return std::fs::write(path, text)
                .with_context(|| format!("writing {}", path.display()));
        }
        let recorded = Self::read(path)?;
        if recorded == self {
            return Ok(());
        }
        let differences = differences(&recorded, &self);
        bail!(
            "{recorded_from} does not write what {} has from {}; {RECORD}=1 records it anew, and then the stand-in has to \
             follow. Differences:\n{}\nfields that did not last, recorded {:?}, written {:?}\nthe new recording:\n{text}",
            path.display(),
            recorded.recorded_from,
            lines(&differences),
            recorded.passing,
            self.passing,
        )
    }

    /// Compares what a stand-in wrote with the recorded file: it writes the same, and nothing that the genuine program
    /// never wrote, except for what is left out. An entry of `left_out` that hides no difference is an error.
    pub fn assert_imitates(&self, path: &Path, left_out: &[LeftOut]) -> anyhow::Result<()> {
        let recorded = Self::read(path).with_context(|| {
            let text = serde_json::to_string_pretty(self).unwrap_or_default();
            format!("the stand-in writes:\n{text}")
        })?;
        let mut found = differences(&recorded, self);
        found.extend(self.order_differences(&recorded, left_out));
        found.extend(self.passing_differences(&recorded));
        let unused: Vec<&LeftOut> = left_out
            .iter()
            .filter(|entry| !found.iter().any(|difference| entry.covers(difference)))
            .collect();
        found.retain(|difference| !left_out.iter().any(|entry| entry.covers(difference)));
        if found.is_empty() && unused.is_empty() {
            return Ok(());
        }
        bail!(
            "the stand-in differs from {} in {}:\n{}\nleft out without a difference: {unused:?}",
            recorded.recorded_from,
            path.display(),
            lines(&found),
        )
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("reading {}; {RECORD}=1 records it", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("decoding {}", path.display()))
    }

    /// Compares the order of the objects that both wrote.
    fn order_differences(&self, recorded: &Self, left_out: &[LeftOut]) -> Vec<Difference> {
        let is_left_out = |object: &str| {
            let mut whole = left_out.iter().filter(|entry| entry.field.is_empty());
            whole.any(|entry| entry.covers_object(object))
        };
        let mut found = Vec::new();
        for (theirs, ours) in recorded.steps.iter().zip(&self.steps) {
            let imitated = |order: &[String]| -> Vec<String> {
                let imitated = order.iter().filter(|object| !is_left_out(object));
                imitated.cloned().collect()
            };
            let (expected, written) = (imitated(&theirs.order), imitated(&ours.order));
            if expected != written {
                found.push(Difference {
                    step: theirs.step.clone(),
                    object: String::new(),
                    field: "order".to_owned(),
                    text: format!("{expected:?} recorded, {written:?} written"),
                });
            }
        }
        found
    }

    /// Fields that did not last, and that the genuine program never wrote.
    fn passing_differences(&self, recorded: &Self) -> Vec<Difference> {
        let mut ever = recorded.passing.clone();
        for step in &recorded.steps {
            for (object, value) in &step.objects {
                let paths = ever.entry(object.clone()).or_default();
                paths.extend(leaves(value).into_keys());
            }
        }
        let never = |object: &String, field: &String| {
            let fields = ever.get(object);
            fields.is_none_or(|fields| !fields.contains(field))
        };
        let fields = self.passing.iter().flat_map(|(object, fields)| {
            let of_object = fields.iter().filter(|field| never(object, field));
            of_object.map(|field| Difference {
                step: String::new(),
                object: object.clone(),
                field: field.clone(),
                text: "written and removed, not recorded".to_owned(),
            })
        });
        fields.collect()
    }
}

fn lines(differences: &[Difference]) -> String {
    let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
