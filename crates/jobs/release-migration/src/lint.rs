//! Finds problems of a release before it is applied.

mod operators;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use platform::Reference;
use serde::Serialize;

use crate::payload::{FileName, Files, METADATA, Manifest, Payload, REFERENCES, is_manifest};
use crate::replace::{PLACEHOLDER, SNAPSHOT};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// The release works, but its completion is less certain.
    Warning,
    /// The release does not work, or never completes.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// The rules that a release is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Rule {
    /// Files can be parsed, and are consistent.
    Integrity,
    /// No placeholder and no snapshot version is left.
    Placeholder,
    /// Images are referenced by digest.
    Digest,
    /// File names define the order of application.
    FileName,
    /// An operator is waited for after its Deployment is applied, not before.
    Order,
    /// An object is in one file only.
    Twice,
    /// An operator declares the versions it reports.
    Versions,
    /// An operator reports its image.
    Adoption,
    /// An image that an operator reports is one of the release.
    Image,
    /// A workload of the release receives the image that an operator has to report.
    #[serde(rename = "Told")]
    ImageVariable,
}

impl Rule {
    /// The severity of a violation.
    pub fn severity(self) -> Severity {
        match self {
            Self::Adoption | Self::FileName | Self::Twice | Self::ImageVariable => {
                Severity::Warning
            }
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The rule.
    pub rule: Rule,
    /// The file.
    pub file: String,
    /// The operator, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The problem, and the accepted form.
    pub message: String,
}

impl Finding {
    fn new(rule: Rule, file: &str, message: String) -> Self {
        Self {
            severity: rule.severity(),
            rule,
            file: file.to_owned(),
            operator: None,
            message,
        }
    }

    fn of(rule: Rule, file: &str, operator: &str, message: String) -> Self {
        Self {
            operator: Some(operator.to_owned()),
            ..Self::new(rule, file, message)
        }
    }
}

/// Checks the files of a release. The most severe findings come first.
pub fn lint(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, text) in files {
        if is_manifest(name) || name == REFERENCES || name == METADATA {
            found.extend(left_over(name, text));
        }
        if is_manifest(name) && FileName::read(name).is_none() {
            let what = "its name is not 0000_NN_component_rest: it is applied after all that are";
            found.push(Finding::new(Rule::FileName, name, what.to_owned()));
        }
    }
    match Payload::read("the release", files) {
        Err(error) => {
            for problem in error.problems {
                let text = problem.to_string();
                // Errors name their file in the text only.
                let file = files.keys().find(|file| text.contains(file.as_str()));
                let file = file.map_or("", String::as_str);
                found.push(Finding::new(Rule::Integrity, file, text));
            }
        }
        Ok(payload) => {
            for warning in &payload.warnings {
                let mut finding = Finding::new(Rule::Integrity, METADATA, warning.clone());
                finding.severity = Severity::Warning;
                found.push(finding);
            }
            found.extend(by_digest(&payload));
            found.extend(twice(&payload.manifests));
            found.extend(operators::lint(&payload));
        }
    }
    found.sort_by(|one, other| {
        let by = other.severity.cmp(&one.severity);
        by.then_with(|| one.file.cmp(&other.file))
            .then_with(|| one.cmp(other))
    });
    found.dedup();
    found
}

/// Remaining placeholders and snapshot versions, each once per file.
fn left_over(file: &str, text: &str) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        for (pattern, what) in [(PLACEHOLDER, "placeholder"), (SNAPSHOT, "snapshot version")] {
            let Some(at) = line.find(pattern) else {
                continue;
            };
            let rest = line.get(at..).unwrap_or_default();
            // Wider than what the builder accepts as an end: the finding should show why it did not match.
            let end = rest.find(|c: char| c.is_whitespace() || "\"'`,}])>".contains(c));
            let it = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            found.entry(it.to_owned()).or_insert((what, number + 1));
        }
    }
    found
        .into_iter()
        .map(|(it, (what, line))| {
            let message = format!(
                "line {line}: the {what} {it} was not replaced; it has to end before whitespace, a quote or the end of the file, and its operator's image-references has to name it"
            );
            Finding::new(Rule::Placeholder, file, message)
        })
        .collect()
}

/// Images that are not referenced by digest: a tag may point to another image later.
fn by_digest(payload: &Payload) -> Vec<Finding> {
    payload
        .images
        .images()
        .filter_map(|(tag, image)| {
            let why = not_by_digest(image)?;
            Some(Finding::new(
                Rule::Digest,
                REFERENCES,
                format!("image {tag} is {image}, {why}"),
            ))
        })
        .collect()
}

/// Why a pull specification is not by digest.
fn not_by_digest(image: &str) -> Option<String> {
    match image.parse::<Reference>() {
        Err(error) => Some(format!("which is no image: {error}")),
        Ok(reference) if reference.digest().is_none() => {
            Some("by tag; an image of a release is named by digest".to_owned())
        }
        Ok(_) => None,
    }
}

fn twice(manifests: &[Manifest]) -> Vec<Finding> {
    let mut first: BTreeMap<(String, String), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for manifest in manifests.iter().filter(|it| !it.name().is_empty()) {
        let key = (manifest.group().to_owned(), manifest.called());
        match first.get(&key) {
            Some(file) => found.push(Finding::new(
                Rule::Twice,
                &manifest.file,
                format!("{} is in {file} as well; the later one wins", key.1),
            )),
            None => {
                first.insert(key, &manifest.file);
            }
        }
    }
    found
}
