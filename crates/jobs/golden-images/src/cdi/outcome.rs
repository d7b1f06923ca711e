//! The result of an importer: one line of JSON, which a pod leaves behind as its termination
//! message.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::data_volume::{Report, State};
use super::failure::{Failure, Reason};

/// The kubelet keeps this many bytes of a termination message.
pub const MAX_TERMINATION_MESSAGE: usize = 4096;
/// The share of an error message: JSON escapes may double its length.
const MAX_ERROR_BYTES: usize = 1500;

/// The error of CDI's importer for a file that does not match its checksum.
const CHECKSUM_MISMATCH: &str = "checksum mismatch";

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The reason of the failure; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The digest of the disk content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The architectures detected on the disk.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sniffed: BTreeSet<String>,
    /// Labels that the image declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Written by CDI's importer, with exit code 0, if it has to run again with scratch space.
    #[serde(default, skip_serializing)]
    scratch_space_required: bool,
}

impl Outcome {
    /// The result of a successful import.
    pub fn succeeded(report: Report) -> Self {
        Self {
            content: report.content,
            sniffed: report.sniffed,
            labels: report.labels,
            ..Self::default()
        }
    }

    /// The result of a failed import.
    pub fn failed(failure: &Failure) -> Self {
        let mut message = failure.message.clone();
        if message.len() > MAX_ERROR_BYTES {
            let end = message.floor_char_boundary(MAX_ERROR_BYTES);
            message.truncate(end);
            message.push('…');
        }
        Self {
            reason: Some(failure.reason.as_str().to_owned()),
            message: Some(message),
            ..Self::default()
        }
    }

    /// Serialises the result. Labels are dropped if it would be too long.
    pub fn write(&self) -> String {
        // Strings and maps of strings always serialise.
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() <= MAX_TERMINATION_MESSAGE {
            return text;
        }
        // The labels first: without the digest and the architectures, a correct disk could not be
        // published.
        let short = Self {
            labels: BTreeMap::new(),
            ..self.clone()
        };
        serde_json::to_string(&short).unwrap_or_default()
    }

    /// The state of a pod that has ended, by its exit code and termination message. Messages of
    /// other importers are recognised by their texts.
    pub fn read(code: i32, text: &str) -> State {
        let read: Option<Self> = serde_json::from_str(text).ok();
        match read {
            // CDI's importer ends with exit code 0 in both cases (cmd/cdi-importer/importer.go).
            Some(it) if code == 0 && it.scratch_space_required => State::Failed(Failure::new(
                Reason::ImportFailed,
                "CDI's importer needs scratch space",
            )),
            Some(Self {
                reason: None,
                message: Some(message),
                ..
            }) if code == 0 && message.contains(CHECKSUM_MISMATCH) => {
                State::Failed(Failure::new(Reason::DigestMismatch, message))
            }
            Some(it) if code == 0 && it.reason.is_none() => State::Succeeded(Report {
                content: it.content,
                sniffed: it.sniffed,
                labels: it.labels,
            }),
            Some(it) => {
                let message = it.message.unwrap_or_else(|| exit_message(code));
                let reason = it.reason.as_deref().and_then(Reason::parse);
                let reason = reason.unwrap_or_else(|| Reason::of_message(&message));
                State::Failed(Failure::new(reason, message))
            }
            // CDI's importer writes plain text; an exit without an error is a success all the same.
            None if code == 0 => State::Succeeded(Report::default()),
            None if text.trim().is_empty() => {
                State::Failed(Failure::new(Reason::ImportFailed, exit_message(code)))
            }
            None => State::Failed(Failure::new(Reason::of_message(text), text.trim())),
        }
    }
}

fn exit_message(code: i32) -> String {
    format!("importer exited with code {code} without a termination message")
}

/// The labels that an image declares: `A_KUBEVIRT_IO_B_C=v` in its environment is the label
/// `a.kubevirt.io/b-c: v`.
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
        // The environment of an image is arbitrary, and one invalid label would make the API server
        // reject the whole patch.
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
