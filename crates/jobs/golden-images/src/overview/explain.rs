//! Explains the state of an image.

use jiff::Timestamp;
use machinery::time::{format_time, human_duration};
use serde::Serialize;

use super::{Image, State, Variant};
use crate::architectures::Choice;
use crate::cdi::failure::Reason;
use crate::history::Entry;

/// The state of a DataSource, its reasons and the next steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The DataSource.
    pub data_source: String,
    /// The state, in a sentence.
    pub state: String,
    /// The reasons, one per line.
    pub because: Vec<String>,
    /// What would change it, one step per line.
    pub next: Vec<String>,
}

/// Explains an image: its pointer, and every architecture or only the given one.
pub fn explain(image: &Image, architecture: Option<&str>, now: Timestamp) -> Vec<Explanation> {
    let mut all = Vec::new();
    if architecture.is_none() {
        all.extend(explain_pointer(image));
    }
    let variants = image.architectures.iter();
    let variants =
        variants.filter(|it| architecture.is_none_or(|wanted| it.architecture == wanted));
    all.extend(variants.map(|variant| explain_variant(image, variant, now)));
    all
}

/// Explains the name without architecture.
fn explain_pointer(image: &Image) -> Option<Explanation> {
    let pointer = image.pointer.as_ref()?;
    let target = &pointer.data_source;
    let cloned = if pointer.ready {
        "can be cloned"
    } else {
        "cannot be cloned"
    };
    let mut because = Vec::new();
    let mut next = Vec::new();
    match &pointer.reason {
        None => because.push(format!(
            "It is not recorded why it points to {target}: the DataSource was created manually or by another controller."
        )),
        Some(reason) => {
            because.push(format!("The default architecture is {reason}."));
            if let Some(why) = Choice::why_of(reason) {
                because.push(format!("{why} means that {}.", why.rule()));
            }
        }
    }
    if let Some(message) = &pointer.message {
        because.push(format!("{message}."));
    }
    let target = image.architectures.iter().find(|it| it.is_default);
    match target {
        None => next.push(format!(
            "DataSource {} not found: restore it, or point the name to another one.",
            pointer.data_source
        )),
        Some(_) if pointer.ready => {
            next.push("Nothing: it follows its target.".to_owned());
        }
        Some(target) => next.push(format!(
            "Fix {}, which is {}; see below.",
            target.data_source, target.state
        )),
    }
    Some(Explanation {
        data_source: image.name.clone(),
        state: format!(
            "{} points to {} and {cloned}.",
            image.name, pointer.data_source
        ),
        because,
        next,
    })
}

fn explain_variant(image: &Image, variant: &Variant, now: Timestamp) -> Explanation {
    let reason = variant.reason.as_deref();
    let word = reason.map(|reason| format!(" ({reason})"));
    let architecture = if variant.architecture.is_empty() {
        String::new()
    } else {
        format!(" for {}", variant.architecture)
    };
    let mut because = Vec::new();
    if let Some(message) = &variant.message {
        because.push(format!("{}.", message.trim_end_matches('.')));
    }
    because.extend(current_source(variant));
    because.extend(versions(variant));
    because.extend(kept_versions(variant));
    because.extend(polls(variant, now));
    if !variant.available.is_empty() && !variant.architecture.is_empty() {
        let available = variant.available.join(", ");
        because.push(format!("The source has the architectures {available}."));
    }
    Explanation {
        data_source: variant.data_source.clone(),
        state: format!(
            "{}{architecture} is {}{}.",
            variant.data_source,
            variant.state,
            word.unwrap_or_default()
        ),
        because,
        next: next(image, variant),
    }
}

fn current_source(variant: &Variant) -> Option<String> {
    let volume = variant.volume.as_ref()?;
    let digest = variant.digest.as_deref().unwrap_or("an unknown version");
    let since = variant
        .since
        .map(|since| format!(" since {}", format_time(since)));
    Some(format!(
        "It refers to {volume}, version {digest}{}.",
        since.unwrap_or_default()
    ))
}

/// The pinned version, the newest one, and the running import.
fn versions(variant: &Variant) -> Vec<String> {
    let mut lines = Vec::new();
    let in_use = variant.digest.as_ref();
    if let Some(pinned) = &variant.pinned {
        let held = if in_use == Some(pinned) {
            format!("It is pinned to {pinned}.")
        } else {
            format!("It is pinned to {pinned}, which is not in use yet.")
        };
        lines.push(held);
    }
    if let Some(newest) = variant.newest.as_ref().filter(|it| in_use != Some(it)) {
        lines.push(format!("The source has {newest}."));
    }
    if let Some(importing) = &variant.importing {
        let far = variant.progress.as_ref().map(|it| format!(" ({it})"));
        lines.push(format!(
            "DataVolume {importing} imports{}.",
            far.unwrap_or_default()
        ));
    }
    lines
}

/// The earlier versions that CDI keeps; it records no others.
fn kept_versions(variant: &Variant) -> impl Iterator<Item = String> {
    let in_use = variant.volume.as_deref().and_then(|it| it.split_once('/'));
    let in_use = in_use.map(|(_, name)| name);
    let derived = variant
        .history
        .iter()
        .filter(move |entry| entry.derived && Some(entry.name.as_str()) != in_use);
    derived.map(|entry| {
        let Entry {
            digest,
            name,
            format,
            since,
            ..
        } = entry;
        let since = if since.is_empty() {
            String::new()
        } else {
            format!(", imported at {since}")
        };
        format!("CDI keeps version {digest} as {format}/{name}{since}.")
    })
}

/// The last poll, and the next one.
fn polls(variant: &Variant, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let url = variant.url.as_deref().unwrap_or("Its source");
    match variant.last_poll {
        Some(at) => lines.push(format!(
            "{url} was last polled at {}, {} ago.",
            format_time(at),
            human_duration(now.duration_since(at))
        )),
        None if variant.cron.is_some() => lines.push(format!("{url} has not been polled yet.")),
        None => {}
    }
    if let (Some(failures), Some(next)) = (variant.failures, variant.next_retry) {
        let times = if failures == 1 {
            "once".to_owned()
        } else {
            format!("{failures} times in a row")
        };
        lines.push(format!(
            "It failed {times}; the next try is at {}.",
            format_time(next)
        ));
    } else if let Some(next) = variant.next_poll.filter(|next| *next > now) {
        lines.push(format!(
            "The next scheduled poll is at {} or soon after.",
            format_time(next)
        ));
    }
    lines
}

/// The next steps.
fn next(image: &Image, variant: &Variant) -> Vec<String> {
    let name = &image.name;
    let by = by_name(image, variant);
    let mut lines = Vec::new();
    // Nothing else matters for an image that is about to be deleted.
    if let Some(at) = variant.leaves_at {
        lines.push(format!(
            "No node has {} any more. It is deleted at {}, unless such a node joins before.",
            variant.architecture,
            format_time(at)
        ));
        return lines;
    }
    let reason = variant.reason.as_deref();
    if let Some(reason) = reason.and_then(Reason::parse) {
        lines.push(advice(image, variant, reason));
        if variant.next_retry.is_some() {
            lines.push(format!("To retry now: `medley images refresh {by}`."));
        }
    } else {
        lines.extend(match reason {
            Some("NoDigest") if variant.next_poll.is_none() => Some(format!(
                "Its schedule is empty, so it is not polled automatically; poll it once with `medley images refresh {by}`."
            )),
            Some("NoDigest") => Some(format!(
                "Check that the operator runs, and poll now: `medley images refresh {by}`."
            )),
            Some("ErrDataSourceAlreadyManaged") => Some(format!(
                "Delete one of the DataImportCrons that manage {}, or have it manage another DataSource.",
                variant.data_source
            )),
            Some("ImportProgressing" | "Outdated") => {
                Some("Nothing: the import is in progress.".to_owned())
            }
            _ if variant.state == State::Ready => None,
            _ if variant.cron.is_none() => Some(format!(
                "No DataImportCron manages it: create the PVC or snapshot that it refers to, or a DataImportCron with managedDataSource {}.",
                variant.data_source
            )),
            _ => Some("Nothing: it is pending.".to_owned()),
        });
    }
    if variant.pinned.is_some() {
        // Beside CDI, a template has one version for all architectures.
        let of = if variant.is_pinned_upstream {
            name
        } else {
            &by
        };
        lines.push(format!(
            "To follow new versions again: `medley images unpin {of}`."
        ));
    } else if lines.is_empty() {
        lines.push("Nothing: it is up to date.".to_owned());
    }
    if variant.state == State::Ready && !variant.history.is_empty() {
        let earlier = crate::history::back(&variant.history, 1);
        // A shortened digest cannot be pinned.
        let earlier = earlier.filter(|entry| entry.is_whole());
        lines.extend(earlier.map(|earlier| {
            let of = if earlier.derived { name } else { &by };
            format!(
                "To roll back to {}: `medley images rollback {of}`.",
                earlier.digest
            )
        }));
    }
    lines
}

/// The arguments that name it on the command line.
fn by_name(image: &Image, variant: &Variant) -> String {
    format!("{}{}", image.name, arch_flag(variant))
}

fn arch_flag(variant: &Variant) -> String {
    if variant.architecture.is_empty() {
        String::new()
    } else {
        format!(" --arch {}", variant.architecture)
    }
}

/// What to do about a failure.
fn advice(image: &Image, variant: &Variant, reason: Reason) -> String {
    let architecture = &variant.architecture;
    let url = variant.url.as_deref().unwrap_or("the source");
    let namespace = &image.namespace;
    let import = variant.importing.as_deref().unwrap_or("of the import");
    match reason {
        Reason::ArchitectureNotFound | Reason::NotAnIndex => format!(
            "Publish an image for {architecture} as {url} (`medley image inspect` lists its platforms), or remove {architecture} from the annotation {} of its template.",
            api::ssp::ARCHITECTURES
        ),
        Reason::NoMatchingNode => format!(
            "Add a node with kubernetes.io/arch={architecture}, or set pullMethod: pod."
        ),
        Reason::PullUnauthorized => format!(
            "Put credentials for {url} into the secret named by secretRef of its source, in namespace {namespace}."
        ),
        Reason::ImageNotFound => format!("Publish {url}, or correct the address in its template."),
        Reason::RateLimited | Reason::RegistryUnavailable => {
            "Nothing, if the error is temporary: it is retried automatically.".to_owned()
        }
        Reason::DigestMismatch => format!(
            "The content of {url} is changed in transit, or its checksum is that of another file. It is not used until they match."
        ),
        Reason::TooSmall => {
            "Request a larger volume: spec.template.spec.storage.resources.requests.storage of its template.".to_owned()
        }
        Reason::NoDisk | Reason::InvalidDisk | Reason::BootableContainer => format!(
            "Publish a disk as {url}: a container disk, which has one raw or qcow2 file in /disk, or such a file on a web server."
        ),
        Reason::ArchitectureMismatch => format!(
            "Publish a disk that boots on {architecture}, or set spec.sniffing: Warn in the GoldenImagePolicy to accept this one."
        ),
        Reason::Unschedulable => {
            "Free resources for the importer pod on a node; the conditions of the DataVolume have the message of the scheduler.".to_owned()
        }
        Reason::InvalidDigest => {
            "A version must be a digest that begins with sha256: or uid:; correct the pin or the annotation.".to_owned()
        }
        Reason::NotAuthorized => format!(
            "Allow the service account of its DataImportCron, in namespace {namespace}, to create datavolumes/source in the namespace of the PVC."
        ),
        Reason::KindNotInstalled => {
            "Use a registry URL instead of an ImageStream, which only OpenShift has.".to_owned()
        }
        Reason::ImportFailed => format!(
            "Check the DataVolume: `kubectl -n {namespace} describe datavolume {import}`."
        ),
    }
}
