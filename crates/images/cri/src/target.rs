//! The target of a request: handler, platform and image name.

use std::collections::{BTreeMap, HashMap};

use platform::{Digest, Matcher, Platform, Reference};

use crate::api::ImageSpec;
use crate::handlers::{Handler, Handlers};

/// The handler, in the proposal's annotation from before the field existed.
pub const HANDLER: &str = "kubernetes.io/runtimehandler";
/// The operating system of the image.
pub const OS: &str = "kubernetes.io/os";
/// The architecture of the image.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";

/// The minimum length of an id prefix; `crictl` shows 13 digits.
// Shorter ones are more likely to be names: `cafe` is a valid repository.
const MIN_ID_PREFIX: usize = 6;

/// The handler and platform an image is requested for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The handler as given; empty for the default one.
    pub(crate) handler: String,
    /// The platform of the handler, or of annotations instead.
    pub(crate) platform: Platform,
    /// The rule by which images are chosen.
    pub(crate) matcher: Matcher,
    /// The annotations that influenced the choice.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The requested handler: the field, or the annotation if the field is empty.
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
    /// The target of a request; `None` if its handler is not configured here.
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

/// The platform of the handler, overridden by annotations. Details of a platform that no longer apply
/// are dropped: the `os.version` of Windows has no meaning for Linux.
fn wanted(handler: &Handler, spec: &ImageSpec) -> (Platform, Matcher) {
    let os = annotation(&spec.annotations, OS);
    let architecture = annotation(&spec.annotations, ARCHITECTURE);
    if os.is_none() && architecture.is_none() {
        let matcher = handler.matcher();
        return (matcher.wanted().clone(), matcher);
    }
    let mut platform = handler.platform.normalised();
    if let Some(os) = os {
        let wanted = Platform::new(os, &platform.architecture).normalised().os;
        if wanted != platform.os {
            platform.os_version.clear();
            platform.os_features.clear();
        }
        platform.os = wanted;
    }
    if let Some(architecture) = architecture {
        let wanted = Platform::new(&platform.os, architecture).normalised();
        if wanted.architecture != platform.architecture {
            platform.variant = wanted.variant;
        }
        platform.architecture = wanted.architecture;
    }
    let matcher = Matcher::isolated(&platform, handler.isolation);
    (matcher.wanted().clone(), matcher)
}

/// How a request names an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// By its id.
    Id(Digest),
    /// By a reference. One that looks like an id prefix also matches ids, if no image has that name.
    Reference(Reference, Option<String>),
    /// By an invalid name.
    Invalid,
}

impl Named {
    /// Whether it may be an id or an id prefix.
    pub(crate) fn is_id(&self) -> bool {
        matches!(self, Self::Id(_) | Self::Reference(_, Some(_)))
    }

    pub(crate) fn read(text: &str) -> Self {
        let id = if text.contains(':') {
            text.parse()
        } else {
            format!("sha256:{text}").parse()
        };
        // The kubelet always includes a tag, so its references are never taken for ids.
        let digits =
            text.len() >= MIN_ID_PREFIX && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let start = digits.then(|| text.to_owned());
        match (id, text.parse()) {
            (Ok(id), _) => Self::Id(id),
            (_, Ok(reference)) => Self::Reference(reference, start),
            _ => Self::Invalid,
        }
    }
}

/// The recorded name of a reference: with its digest if it has one, else with its tag.
pub(crate) fn name_of(reference: &Reference) -> String {
    match reference.digest() {
        Some(digest) => format!("{}@{digest}", reference.name()),
        None => reference.to_string(),
    }
}
