//! What is asked for: which handler, which platform, which name.

use std::collections::{BTreeMap, HashMap};

use platform::{Digest, Matcher, Platform, Reference};

use crate::api::ImageSpec;
use crate::handlers::{Handler, Handlers};

/// The handler, as the proposal had it before there was a field for it.
pub const HANDLER: &str = "kubernetes.io/runtimehandler";
/// The operating system of the image.
pub const OS: &str = "kubernetes.io/os";
/// The architecture of the image.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";

/// Fewer digits are no beginning of an id; `crictl` shows 13.
const SHORTEST: usize = 6;

/// For what an image is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The handler as it was named; nothing is the default one.
    pub(crate) handler: String,
    /// What it runs, or what annotations want instead.
    pub(crate) platform: Platform,
    /// By which images are chosen.
    pub(crate) matcher: Matcher,
    /// Annotations that had a say.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The handler that is meant. The field counts, and the annotation where it is empty.
pub(crate) fn handler_of(spec: &ImageSpec) -> &str {
    if spec.runtime_handler.is_empty() {
        annotation(&spec.annotations, HANDLER).unwrap_or_default()
    } else {
        &spec.runtime_handler
    }
}

fn annotation<'a>(all: &'a HashMap<String, String>, key: &str) -> Option<&'a str> {
    all.get(key)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

impl Target {
    /// What a question is about; none if its handler is none of ours.
    pub(crate) fn of(spec: &ImageSpec, handlers: &Handlers) -> Option<Self> {
        let name = handler_of(spec);
        let handler = handlers.find(name)?;
        let (platform, matcher) = wanted(handler, spec);
        let annotations = [HANDLER, OS, ARCHITECTURE]
            .into_iter()
            .filter(|key| *key != HANDLER || spec.runtime_handler.is_empty())
            .filter_map(|key| {
                Some((
                    key.to_owned(),
                    annotation(&spec.annotations, key)?.to_owned(),
                ))
            })
            .collect();
        Some(Self {
            handler: name.to_owned(),
            platform,
            matcher,
            annotations,
        })
    }
}

/// What the handler runs, but for what annotations say. What narrows a platform that is not meant any
/// more goes: an `os.version` of Windows says nothing of Linux.
fn wanted(handler: &Handler, spec: &ImageSpec) -> (Platform, Matcher) {
    let os = annotation(&spec.annotations, OS);
    let architecture = annotation(&spec.annotations, ARCHITECTURE);
    if os.is_none() && architecture.is_none() {
        let matcher = handler.matcher();
        return (matcher.wanted().clone(), matcher);
    }
    let mut platform = handler.platform.normalised();
    if let Some(os) = os {
        let asked = Platform::new(os, &platform.architecture).normalised().os;
        if asked != platform.os {
            platform.os_version.clear();
            platform.os_features.clear();
        }
        platform.os = asked;
    }
    if let Some(architecture) = architecture {
        let asked = Platform::new(&platform.os, architecture).normalised();
        if asked.architecture != platform.architecture {
            platform.variant = asked.variant;
        }
        platform.architecture = asked.architecture;
    }
    let matcher = Matcher::isolated(&platform, handler.isolation);
    (matcher.wanted().clone(), matcher)
}

/// How an image is named in a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// By its id.
    Id(Digest),
    /// By a reference. If it looks like the beginning of an id, that may be meant, if nothing is called
    /// so.
    Reference(Reference, Option<String>),
    /// By nothing that could be a name.
    Nonsense,
}

impl Named {
    /// Whether it may be an id, or the beginning of one.
    pub(crate) fn is_id(&self) -> bool {
        matches!(self, Self::Id(_) | Self::Reference(_, Some(_)))
    }

    pub(crate) fn read(text: &str) -> Self {
        let id = if text.contains(':') {
            text.parse()
        } else {
            format!("sha256:{text}").parse()
        };
        // A kubelet always says a tag, so that its names are never taken for ids.
        let digits = text.len() >= SHORTEST && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let start = digits.then(|| text.to_owned());
        match (id, text.parse()) {
            (Ok(id), _) => Self::Id(id),
            (_, Ok(reference)) => Self::Reference(reference, start),
            _ => Self::Nonsense,
        }
    }
}

/// How an image is known that was asked for by a reference: with its tag, or with its digest if it has
/// one.
pub(crate) fn name_of(reference: &Reference) -> String {
    match reference.digest() {
        Some(digest) => format!("{}@{digest}", reference.name()),
        None => reference.to_string(),
    }
}
