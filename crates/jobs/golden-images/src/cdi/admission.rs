//! Validation of DataImportCrons, as in CDI's webhook.

#[cfg(test)]
mod tests;

use api::cdi::{DataImportCron, DataImportCronSpec, DataVolumeSource, HttpSource, RegistrySource};
use machinery::cron::Schedule;
use machinery::names::LABEL_MAX;

/// Why a DataImportCron is rejected. Most messages are CDI's word for word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No source is set.
    #[error("Missing source; spec.template.spec.source has to be registry, pvc or http")]
    NoSource,
    /// More than one source is set.
    #[error("Multiple data sources: {0}; one is accepted")]
    ManySources(String),
    /// The kind of source has no versions to poll.
    #[error("source {0} is not supported; registry, pvc and http are accepted")]
    Source(String),
    /// The field is not allowed in a template.
    #[error("{0} must not be set in the template of a DataImportCron")]
    Forbidden(&'static str),
    /// Both `url` and `imageStream` are set, or neither.
    #[error("Source registry should have either URL or ImageStream")]
    UrlOrStream,
    /// The scheme of the URL is not supported.
    #[error("Illegal registry source URL scheme {0:?}; docker is accepted")]
    Scheme(String),
    /// The pull method is unknown.
    #[error("ImportMethod {0} is neither pod, node or \"\"")]
    PullMethod(String),
    /// Only nodes can pull from image streams.
    #[error("Source registry ImageStream is supported only with node pull import method")]
    StreamByPod,
    /// The URL is not an HTTP URL, or contains credentials.
    #[error(
        "Illegal http source URL {0:?}; http:// or https:// and a host without a password are accepted"
    )]
    HttpUrl(String),
    /// The checksum is malformed, or its algorithm is too weak.
    #[error(
        "Illegal http source checksum {0:?}; sha256: and 64, or sha512: and 128 hexadecimal digits are accepted"
    )]
    Checksum(String),
    /// The header is malformed. It may be a secret, so the message does not contain it.
    #[error("Illegal http source extraHeaders[{0}]; \"Name: value\" is accepted")]
    Header(usize),
    /// The schedule cannot be parsed.
    #[error("Illegal cron schedule {schedule:?}: {why}")]
    Schedule {
        /// Its value.
        schedule: String,
        /// The error of the parser.
        why: String,
    },
    /// `importsToKeep` is negative.
    #[error("Illegal ImportsToKeep value {0}; 0 and more are accepted")]
    ImportsToKeep(i32),
    /// `garbageCollect` is unknown.
    #[error("Illegal GarbageCollect value {0:?}; Outdated and Never are accepted")]
    GarbageCollect(String),
    /// `retentionPolicy` is unknown.
    #[error("Illegal RetentionPolicy value {0:?}; None and All are accepted")]
    Retention(String),
    /// `managedDataSource` is empty.
    #[error("Illegal ManagedDataSource value {0:?}; a name is needed")]
    NoDataSource(String),
    /// A name is too long. Both names become label values.
    #[error("{what} {value:?} has {length} characters; 63 are accepted")]
    TooLong {
        /// The field.
        what: &'static str,
        /// Its value.
        value: String,
        /// Its length.
        length: usize,
    },
    /// The specification is immutable.
    #[error("Cannot update DataImportCron Spec")]
    Changed,
}

/// All errors of a DataImportCron that is created, or updated from `old`.
pub fn review(old: Option<&DataImportCron>, new: &DataImportCron) -> Vec<Refusal> {
    // A stored object is not validated again: a rule that is added later must not block its
    // finalizers or labels.
    if let Some(old) = old {
        return if old.spec == new.spec {
            Vec::new()
        } else {
            vec![Refusal::Changed]
        };
    }
    let mut wrong = Vec::new();
    let name = new.metadata.name.as_deref().unwrap_or_default();
    too_long("name", name, &mut wrong);
    wrong.extend(spec_errors(&new.spec));
    wrong
}

/// All errors of a specification.
pub fn spec_errors(spec: &DataImportCronSpec) -> Vec<Refusal> {
    let mut wrong = Vec::new();
    let volume = &spec.template.spec;
    match &volume.source {
        None => wrong.push(Refusal::NoSource),
        Some(source) => source_errors(source, &mut wrong),
    }
    for (set, name) in [
        (volume.source_ref.is_some(), "sourceRef"),
        (volume.content_type.is_some(), "contentType"),
        (volume.checkpoints.is_some(), "checkpoints"),
        (volume.final_checkpoint.is_some(), "finalCheckpoint"),
    ] {
        if set {
            wrong.push(Refusal::Forbidden(name));
        }
    }
    if !spec.schedule.is_empty()
        && let Err(why) = Schedule::parse(&spec.schedule)
    {
        wrong.push(Refusal::Schedule {
            schedule: spec.schedule.clone(),
            why,
        });
    }
    if let Some(count) = spec.imports_to_keep.filter(|count| *count < 0) {
        wrong.push(Refusal::ImportsToKeep(count));
    }
    let word = |value: &Option<String>, accepted: [&str; 2]| {
        let value = value.as_ref().filter(|value| !value.is_empty())?;
        (!accepted.contains(&value.as_str())).then(|| value.clone())
    };
    if let Some(value) = word(&spec.garbage_collect, ["Outdated", "Never"]) {
        wrong.push(Refusal::GarbageCollect(value));
    }
    if let Some(value) = word(&spec.retention_policy, ["None", "All"]) {
        wrong.push(Refusal::Retention(value));
    }
    if spec.managed_data_source.is_empty() {
        wrong.push(Refusal::NoDataSource(spec.managed_data_source.clone()));
    }
    too_long("managedDataSource", &spec.managed_data_source, &mut wrong);
    wrong
}

fn too_long(what: &'static str, value: &str, wrong: &mut Vec<Refusal>) {
    if value.len() > LABEL_MAX {
        wrong.push(Refusal::TooLong {
            what,
            value: value.to_owned(),
            length: value.len(),
        });
    }
}

fn source_errors(source: &DataVolumeSource, wrong: &mut Vec<Refusal>) {
    let mut kinds = Vec::new();
    if source.registry.is_some() {
        kinds.push("registry".to_owned());
    }
    if source.pvc.is_some() {
        kinds.push("pvc".to_owned());
    }
    if source.http.is_some() {
        kinds.push("http".to_owned());
    }
    kinds.extend(source.rest.keys().cloned());
    match kinds.as_slice() {
        [] => wrong.push(Refusal::NoSource),
        [_] => {}
        many => wrong.push(Refusal::ManySources(many.join(", "))),
    }
    wrong.extend(source.rest.keys().cloned().map(Refusal::Source));
    if let Some(registry) = &source.registry {
        registry_errors(registry, wrong);
    }
    if let Some(http) = &source.http {
        http_errors(http, wrong);
    }
}

fn http_errors(http: &HttpSource, wrong: &mut Vec<Refusal>) {
    let url = http.url.as_deref().unwrap_or_default();
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    // User information in a URL would be readable by everyone who can read the object; secretRef
    // exists for it.
    if !host.is_some_and(|host| !host.is_empty() && !host.contains('@')) {
        wrong.push(Refusal::HttpUrl(url.to_owned()));
    }
    let checksum = http.checksum.as_deref().filter(|it| !it.is_empty());
    if let Some(checksum) = checksum.filter(|it| !is_checksum(it)) {
        wrong.push(Refusal::Checksum(checksum.to_owned()));
    }
    let headers = http.extra_headers.iter().enumerate();
    wrong.extend(
        headers
            .filter(|(_, line)| !is_header(line))
            .map(|(place, _)| Refusal::Header(place)),
    );
}

/// CDI also accepts MD5 and SHA-1, for which collisions can be constructed.
fn is_checksum(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let (digits, length) = match text.split_once(':') {
        Some(("sha256", digits)) => (digits, 64),
        Some(("sha512", digits)) => (digits, 128),
        _ => return false,
    };
    digits.len() == length && digits.chars().all(|it| it.is_ascii_hexdigit())
}

fn is_header(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, value)| {
        let word = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
        let name = name.trim();
        !name.is_empty() && name.chars().all(word) && !value.contains(['\r', '\n', '\0'])
    })
}

fn registry_errors(registry: &RegistrySource, wrong: &mut Vec<Refusal>) {
    let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if filled(&registry.url) == filled(&registry.image_stream) {
        wrong.push(Refusal::UrlOrStream);
    }
    if let Some(url) = registry.url.as_ref().filter(|url| !url.is_empty()) {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        // CDI also accepts oci-archive: a file of the importer pod or, where the controller polls,
        // of the controller. The author of a DataImportCron must not read either.
        if scheme != "docker" {
            wrong.push(Refusal::Scheme(scheme.to_owned()));
        }
    }
    let method = registry.pull_method.as_deref().unwrap_or_default();
    if !matches!(method, "" | "pod" | "node") {
        wrong.push(Refusal::PullMethod(method.to_owned()));
    }
    if filled(&registry.image_stream) && method != "node" {
        wrong.push(Refusal::StreamByPod);
    }
}
