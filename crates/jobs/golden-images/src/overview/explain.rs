//! Why it is with an image as it is, and what would help.

use jiff::Timestamp;
use machinery::time::{format_time, human_duration};
use serde::Serialize;

use super::{Image, State, Variant};
use crate::architectures::Choice;
use crate::cdi::failure::Reason;

/// Why, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The DataSource.
    pub data_source: String,
    /// How it is, in a sentence.
    pub state: String,
    /// Why it is so, one reason a line.
    pub because: Vec<String>,
    /// What would move it on, one way a line.
    pub next: Vec<String>,
}

/// Explains an image: the name itself, if it stands for another one, and every architecture, or the
/// one that is asked for.
pub fn explain(image: &Image, architecture: Option<&str>, now: Timestamp) -> Vec<Explanation> {
    let mut all = Vec::new();
    if architecture.is_none() {
        all.extend(name(image));
    }
    let variants = image.architectures.iter();
    let variants =
        variants.filter(|it| architecture.is_none_or(|wanted| it.architecture == wanted));
    all.extend(variants.map(|variant| one(image, variant, now)));
    all
}

/// What a name without architecture stands for.
fn name(image: &Image) -> Option<Explanation> {
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
            "Nobody says why it stands for {target}: it was made by hand, or by somebody else."
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
            "There is no DataSource {}: bring it back, or have the name stand for another one.",
            pointer.data_source
        )),
        Some(_) if pointer.ready => {
            next.push("Nothing: it follows what it stands for.".to_owned());
        }
        Some(target) => next.push(format!(
            "See to {}, which is {}: it is explained below.",
            target.data_source, target.state
        )),
    }
    Some(Explanation {
        data_source: image.name.clone(),
        state: format!(
            "{} stands for {} and {cloned}.",
            image.name, pointer.data_source
        ),
        because,
        next,
    })
}

fn one(image: &Image, variant: &Variant, now: Timestamp) -> Explanation {
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
    because.extend(stands_for(variant));
    because.extend(versions(variant));
    because.extend(asked(variant, now));
    if !variant.available.is_empty() && !variant.architecture.is_empty() {
        let there = variant.available.join(", ");
        because.push(format!("The source has the architectures {there}."));
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

fn stands_for(variant: &Variant) -> Option<String> {
    let volume = variant.volume.as_ref()?;
    let digest = variant.digest.as_deref().unwrap_or("an unknown version");
    let since = variant
        .since
        .map(|since| format!(" since {}", format_time(since)));
    Some(format!(
        "It stands for {volume}, which is {digest}{}.",
        since.unwrap_or_default()
    ))
}

/// What is held on to, and what is new.
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

/// When the source was asked, and when it is asked again.
fn asked(variant: &Variant, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let url = variant.url.as_deref().unwrap_or("Its source");
    match variant.last_poll {
        Some(at) => lines.push(format!(
            "{url} was last asked at {}, {} ago.",
            format_time(at),
            human_duration(now.duration_since(at))
        )),
        None if variant.cron.is_some() => lines.push(format!("{url} was not asked yet.")),
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
            "By its schedule it is asked again at {} or soon after.",
            format_time(next)
        ));
    }
    lines
}

/// What would move it on.
fn next(image: &Image, variant: &Variant) -> Vec<String> {
    let name = &image.name;
    let by = by_name(image, variant);
    let mut lines = Vec::new();
    if let Some(at) = variant.leaves_at {
        lines.push(format!(
            "No node has {} any more. It goes at {}, unless such a node comes back before.",
            variant.architecture,
            format_time(at)
        ));
        return lines;
    }
    let reason = variant.reason.as_deref();
    if let Some(reason) = reason.and_then(Reason::parse) {
        lines.push(advice(image, variant, reason));
        if variant.next_retry.is_some() {
            lines.push(format!(
                "To try again at once: `medley images refresh {by}`."
            ));
        }
    } else {
        lines.extend(match reason {
            Some("NoDigest") if variant.next_poll.is_none() => Some(format!(
                "Its schedule is empty, so that nobody asks by itself: `medley images refresh {by}` has it asked once."
            )),
            Some("NoDigest") => Some(format!(
                "Check that the operator runs, and have it ask at once: `medley images refresh {by}`."
            )),
            Some("ErrDataSourceAlreadyManaged") => Some(format!(
                "Delete one of the DataImportCrons that manage {}, or have it manage another DataSource.",
                variant.data_source
            )),
            Some("ImportProgressing" | "Outdated") => {
                Some("Nothing: the import goes on.".to_owned())
            }
            _ if variant.state == State::Ready => None,
            _ if variant.cron.is_none() => Some(format!(
                "Nobody imports it: make the volume that it stands for, or a DataImportCron whose managedDataSource is {}.",
                variant.data_source
            )),
            _ => Some("Nothing: it is on its way.".to_owned()),
        });
    }
    if variant.pinned.is_some() {
        lines.push(format!(
            "To go on with what is new: `medley images unpin {by}`."
        ));
    } else if lines.is_empty() {
        lines.push("Nothing: it is current.".to_owned());
    }
    if variant.state == State::Ready && !variant.history.is_empty() {
        let earlier = crate::history::back(&variant.history, 1);
        lines.extend(earlier.map(|earlier| {
            format!(
                "To go back to {}: `medley images rollback {name}{}`.",
                earlier.digest,
                arch_flag(variant)
            )
        }));
    }
    lines
}

/// How a command names it.
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

/// What helps against a failure.
fn advice(image: &Image, variant: &Variant, reason: Reason) -> String {
    let architecture = &variant.architecture;
    let url = variant.url.as_deref().unwrap_or("the source");
    let namespace = &image.namespace;
    let import = variant.importing.as_deref().unwrap_or("of the import");
    match reason {
        Reason::ArchitectureNotFound | Reason::NotAnIndex => format!(
            "Publish an image for {architecture} as {url} (`medley image inspect` shows what there is), or take {architecture} out of the annotation {} of its template.",
            api::ssp::ARCHITECTURES
        ),
        Reason::NoMatchingNode => format!(
            "Add a node with kubernetes.io/arch={architecture}, or let a pod pull: pullMethod: pod."
        ),
        Reason::PullUnauthorized => format!(
            "Put credentials for {url} into the secret that secretRef of its source names, in namespace {namespace}."
        ),
        Reason::ImageNotFound => format!("Publish {url}, or correct the address in its template."),
        Reason::RateLimited | Reason::RegistryUnavailable => {
            "Nothing, if it passes: it is tried again by itself.".to_owned()
        }
        Reason::DigestMismatch => format!(
            "Something changes {url} on its way, or its checksum is that of another file. It is not used before they agree."
        ),
        Reason::TooSmall => {
            "Ask for a larger volume: spec.template.spec.storage.resources.requests.storage of its template.".to_owned()
        }
        Reason::NoDisk | Reason::InvalidDisk | Reason::BootableContainer => format!(
            "Publish a disk as {url}: a container disk, which has one raw or qcow2 file in /disk, or such a file on a web server."
        ),
        Reason::ArchitectureMismatch => format!(
            "Publish a disk that boots on {architecture}. spec.sniffing: Warn of the GoldenImagePolicy accepts it as it is."
        ),
        Reason::Unschedulable => {
            "Make room for the importer on a node; the DataVolume says what it waits for.".to_owned()
        }
        Reason::InvalidDigest => {
            "A version is a digest that begins with sha256: or uid:; correct who writes another one.".to_owned()
        }
        Reason::NotAuthorized => format!(
            "Allow the service account that its DataImportCron names, in namespace {namespace}, to create datavolumes/source where the volume is."
        ),
        Reason::KindNotInstalled => {
            "Name the image by its address instead of an image stream, which only OpenShift has.".to_owned()
        }
        Reason::ImportFailed => format!(
            "Look at the DataVolume: `kubectl -n {namespace} describe datavolume {import}`."
        ),
    }
}
