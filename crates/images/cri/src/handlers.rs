//! The platform of each runtime handler, from containerd's configuration or a shorter format of our
//! own.
//!
//! ```toml
//! # Our format.
//! default = "runc"
//! pinned = ["registry.k8s.io/pause:3.10"]
//!
//! [handlers.runc]                      # the platform of this node
//! [handlers.ws2019-hyperv]
//! platform = "windows(10.0.17763)/amd64"
//! isolation = "hyperv"
//! ```
//!
//! containerd parses `plugins."io.containerd.cri.v1.images".runtime_platforms.NAME.platform` but does
//! not use it; here it decides. containerd's file can be used unchanged: other keys are ignored. A file
//! may have sections of both formats, and there may be several files.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use platform::windows::Isolation;
use platform::{Matcher, Platform, PlatformError, Reference, ReferenceError};
use serde::Deserialize;
use toml::{Table, Value};

/// The plugins with runtime settings: since version 3 of containerd's configuration, and before.
const RUNTIMES: [&str; 2] = ["io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"];

/// The plugins with image settings, likewise.
const IMAGES: [&str; 2] = ["io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"];

/// The second spelling is written by containerd's own migration, by mistake.
const PLATFORMS: [&str; 2] = ["runtime_platforms", "runtime_platform"];

/// Why a configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not TOML, or has an unknown key.
    #[error("reading {file}: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// The parse error.
        why: String,
    },
    /// The platform of a handler is invalid.
    #[error("reading {file}: handler {handler}")]
    Platform {
        /// The file.
        file: String,
        /// The handler.
        handler: String,
        /// The cause.
        source: PlatformError,
    },
    /// A pinned image is not a valid reference.
    #[error("reading {file}: pinned image {image:?}")]
    Pinned {
        /// The file.
        file: String,
        /// The value in the file.
        image: String,
        /// The cause.
        source: ReferenceError,
    },
    /// The default handler is not configured.
    #[error("reading {file}: the default handler {name:?} is not among its handlers: {}", known.join(", "))]
    Default {
        /// The file.
        file: String,
        /// The value in the file.
        name: String,
        /// The configured handlers.
        known: Vec<String>,
    },
}

/// A runtime handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// The platform of its images.
    pub platform: Platform,
    /// The isolation of Windows containers.
    pub isolation: Isolation,
    /// containerd's snapshotter for it; reported, not used.
    pub snapshotter: String,
}

impl Handler {
    /// The rule by which images are chosen for it.
    pub fn matcher(&self) -> Matcher {
        Matcher::isolated(&self.platform, self.isolation)
    }
}

/// All configured handlers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handlers {
    default: Option<String>,
    all: BTreeMap<String, Handler>,
    pinned: BTreeSet<String>,
}

/// Our own format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    #[serde(default)]
    platform: String,
    #[serde(default)]
    isolation: OwnIsolation,
    #[serde(default)]
    snapshotter: String,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum OwnIsolation {
    #[default]
    Process,
    HyperV,
}

/// The settings of a handler in one file.
#[derive(Debug, Default, Clone)]
struct HandlerSection {
    platform: String,
    snapshotter: String,
    hyper_v: bool,
}

impl Handlers {
    /// A single default handler for a platform, as without configuration.
    pub fn only(platform: Platform) -> Self {
        let handler = Handler {
            platform,
            isolation: Isolation::Process,
            snapshotter: String::new(),
        };
        Self {
            default: Some(String::new()),
            all: BTreeMap::from([(String::new(), handler)]),
            pinned: BTreeSet::new(),
        }
    }

    /// Reads files, given by name and contents. Handlers without a platform use that of this node,
    /// `host`.
    pub fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
        host: &Platform,
    ) -> Result<Self, ConfigError> {
        let mut handlers = Self::default();
        for (file, text) in files {
            handlers.add(file, text, host)?;
        }
        Ok(handlers)
    }

    fn add(&mut self, file: &str, text: &str, host: &Platform) -> Result<(), ConfigError> {
        let wrong = |why: String| ConfigError::Syntax {
            file: file.to_owned(),
            why,
        };
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.to_string().trim().to_owned()))?;
        let mut sections: BTreeMap<String, HandlerSection> = BTreeMap::new();
        let mut default = None;
        containerd(&table, &mut sections, &mut default);
        let is_ours = table.contains_key("handlers");
        if let Some(own) = table.get("handlers") {
            let own: BTreeMap<String, Own> = own
                .clone()
                .try_into()
                .map_err(|error| wrong(format!("handlers: {error}")))?;
            for (name, own) in own {
                let section = sections.entry(name).or_default();
                section.platform = own.platform;
                section.snapshotter = own.snapshotter;
                section.hyper_v = matches!(own.isolation, OwnIsolation::HyperV);
            }
        }
        if let Some(name) = text_of(&table, &["default"]) {
            default = Some(name.to_owned());
        }
        // A typing error in a section name would otherwise start a service without handlers, which forwards
        // everything and looks healthy.
        if sections.is_empty() && !is_ours {
            return Err(wrong(
                "it has no handler; expected [handlers.NAME], or containerd's plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.NAME".to_owned(),
            ));
        }
        for (name, section) in sections {
            let platform = if section.platform.is_empty() {
                host.clone()
            } else {
                let source = Platform::parse_on(&section.platform, host);
                source.map_err(|source| ConfigError::Platform {
                    file: file.to_owned(),
                    handler: name.clone(),
                    source,
                })?
            };
            let isolation = if section.hyper_v {
                Isolation::HyperV
            } else {
                Isolation::Process
            };
            let handler = Handler {
                platform,
                isolation,
                snapshotter: section.snapshotter,
            };
            self.all.insert(name, handler);
        }
        for image in pinned(&table) {
            let reference: Reference = image.parse().map_err(|source| ConfigError::Pinned {
                file: file.to_owned(),
                image: image.to_owned(),
                source,
            })?;
            self.pin(&reference);
        }
        if let Some(name) = default {
            // containerd's default need not be configured here: the backend may have it.
            if is_ours && !self.all.contains_key(&name) {
                return Err(ConfigError::Default {
                    file: file.to_owned(),
                    name,
                    known: self.names(),
                });
            }
            self.default = Some(name);
        }
        Ok(())
    }

    /// Pins an image.
    pub fn pin(&mut self, reference: &Reference) {
        self.pinned.insert(reference.to_string());
    }

    /// Whether an image of this name is pinned.
    pub fn pins(&self, name: &str) -> bool {
        self.pinned.contains(name)
    }

    /// The handler of a name; the default one for the empty name.
    pub fn find(&self, name: &str) -> Option<&Handler> {
        if name.is_empty() {
            return self.all.get(self.default.as_ref()?);
        }
        self.all.get(name)
    }

    /// Adds a default handler for a platform if there is none.
    #[must_use]
    pub fn or_default(mut self, platform: &Platform) -> Self {
        if self.find("").is_none() {
            let only = Self::only(platform.clone());
            self.all.extend(only.all);
            self.default = only.default;
        }
        self
    }

    /// The names of all handlers except the unnamed one.
    pub fn names(&self) -> Vec<String> {
        let names = self.all.keys().filter(|name| !name.is_empty());
        names.cloned().collect()
    }
}

fn table_of<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Table> {
    path.iter()
        .try_fold(table, |table, part| table.get(*part)?.as_table())
}

fn text_of<'a>(table: &'a Table, path: &[&str]) -> Option<&'a str> {
    let (last, parents) = path.split_last()?;
    table_of(table, parents)?.get(*last)?.as_str()
}

/// Reads containerd's sections.
fn containerd(
    table: &Table,
    sections: &mut BTreeMap<String, HandlerSection>,
    default: &mut Option<String>,
) {
    for plugin in RUNTIMES {
        let Some(section) = table_of(table, &["plugins", plugin, "containerd"]) else {
            continue;
        };
        let name = text_of(section, &["default_runtime_name"]);
        if let Some(name) = name {
            *default = Some(name.to_owned());
        }
        for (name, runtime) in table_of(section, &["runtimes"]).into_iter().flatten() {
            let Some(runtime) = runtime.as_table() else {
                continue;
            };
            let section = sections.entry(name.clone()).or_default();
            section.snapshotter = text_of(runtime, &["snapshotter"])
                .unwrap_or_default()
                .into();
            section.platform = text_of(runtime, &["platform"]).map_or_else(
                || sandbox_platform(runtime).unwrap_or_default(),
                str::to_owned,
            );
            let isolation = table_of(runtime, &["options"])
                .and_then(|options| options.get("SandboxIsolation"))
                .and_then(Value::as_integer);
            // 1 is `HYPERVISOR` in the options of the Windows shim (hcsshim, `runhcs-v1`); 0
            // and a missing value are process isolation.
            section.hyper_v = isolation == Some(1);
        }
    }
    // After the runtimes, so that an explicit `runtime_platforms` entry wins over
    // what is derived from the shim's options.
    for plugin in IMAGES {
        for key in PLATFORMS {
            let Some(section) = table_of(table, &["plugins", plugin, key]) else {
                continue;
            };
            for (name, of) in section {
                let Some(of) = of.as_table() else {
                    continue;
                };
                let section = sections.entry(name.clone()).or_default();
                for (key, place) in [
                    ("platform", &mut section.platform),
                    ("snapshotter", &mut section.snapshotter),
                ] {
                    if let Some(text) = text_of(of, &[key]).filter(|text| !text.is_empty()) {
                        text.clone_into(place);
                    }
                }
            }
        }
    }
}

/// The Windows shim's options `SandboxPlatform` and `SandboxOsVersion`.
fn sandbox_platform(runtime: &Table) -> Option<String> {
    let platform = text_of(runtime, &["options", "SandboxPlatform"])?;
    let version = text_of(runtime, &["options", "SandboxOsVersion"]).unwrap_or_default();
    let (os, rest) = platform.split_once('/')?;
    Some(if version.is_empty() {
        platform.to_owned()
    } else {
        format!("{os}({version})/{rest}")
    })
}

/// The pinned images.
fn pinned(table: &Table) -> Vec<&str> {
    let own = table.get("pinned").and_then(Value::as_array);
    let own = own.into_iter().flatten().filter_map(Value::as_str);
    let theirs = IMAGES
        .iter()
        .filter_map(|plugin| table_of(table, &["plugins", plugin, "pinned_images"]))
        .flat_map(Table::values)
        .filter_map(Value::as_str);
    let sandbox = IMAGES
        .iter()
        .filter_map(|plugin| text_of(table, &["plugins", plugin, "sandbox_image"]));
    own.chain(theirs).chain(sandbox).collect()
}
