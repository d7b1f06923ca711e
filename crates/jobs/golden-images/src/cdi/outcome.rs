//! What an importer says at its end: one line of JSON, which a pod leaves behind as its termination
//! message.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::data_volume::{Report, State};
use super::failure::{Failure, Reason};

/// How many bytes of a termination message a kubelet keeps.
pub const LONGEST: usize = 4096;
/// How many bytes of it an error may take: escapes may double them.
const LONGEST_ERROR: usize = 1500;

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Why it failed, in a word; none if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it failed, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the disk holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The architectures that were found on the disk.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sniffed: BTreeSet<String>,
    /// Labels that the image brings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Outcome {
    /// It succeeded.
    pub fn succeeded(report: Report) -> Self {
        Self {
            content: report.content,
            sniffed: report.sniffed,
            labels: report.labels,
            ..Self::default()
        }
    }

    /// It failed.
    pub fn failed(failure: &Failure) -> Self {
        let mut message = failure.message.clone();
        if message.len() > LONGEST_ERROR {
            let end = message.floor_char_boundary(LONGEST_ERROR);
            message.truncate(end);
            message.push('…');
        }
        Self {
            reason: Some(failure.reason.as_str().to_owned()),
            message: Some(message),
            ..Self::default()
        }
    }

    /// As it is written. Labels that do not fit are left out.
    pub fn write(&self) -> String {
        // Texts and maps of texts: writing them cannot fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() <= LONGEST {
            return text;
        }
        let short = Self {
            labels: BTreeMap::new(),
            ..self.clone()
        };
        serde_json::to_string(&short).unwrap_or_default()
    }

    /// What a pod that has ended left behind, by its exit code. Texts of other importers are read,
    /// too: their words tell the reason.
    pub fn read(code: i32, text: &str) -> State {
        let read: Option<Self> = serde_json::from_str(text).ok();
        match read {
            Some(it) if code == 0 && it.reason.is_none() => State::Succeeded(Report {
                content: it.content,
                sniffed: it.sniffed,
                labels: it.labels,
            }),
            Some(it) => {
                let message = it.message.unwrap_or_else(|| ended(code));
                let reason = it.reason.as_deref().and_then(Reason::parse);
                let reason = reason.unwrap_or_else(|| Reason::of_message(&message));
                State::Failed(Failure::new(reason, message))
            }
            None if code == 0 => State::Succeeded(Report::default()),
            None if text.trim().is_empty() => {
                State::Failed(Failure::new(Reason::ImportFailed, ended(code)))
            }
            None => State::Failed(Failure::new(Reason::of_message(text), text.trim())),
        }
    }
}

fn ended(code: i32) -> String {
    format!("the importer ended with code {code} and said nothing")
}

/// The labels that an image brings: `A_KUBEVIRT_IO_B_C=v` in its environment is `a.kubevirt.io/b-c: v`.
pub fn labels_of<'a>(environment: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    const DOMAIN: &str = "_KUBEVIRT_IO_";
    let mut found = BTreeMap::new();
    for entry in environment {
        let Some((name, value)) = entry.split_once('=') else {
            continue;
        };
        let Some((domain, rest)) = name.split_once(DOMAIN) else {
            continue;
        };
        let is_value = value.len() <= machinery::names::LABEL_MAX
            && value
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it));
        if domain.is_empty() || rest.is_empty() || !is_value {
            continue;
        }
        let domain = domain.to_ascii_lowercase().replace('_', ".");
        let rest = rest.to_ascii_lowercase().replace('_', "-");
        found.insert(format!("{domain}.kubevirt.io/{rest}"), value.to_owned());
    }
    found
}
