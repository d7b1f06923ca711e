//! Which platform a runtime handler runs: from a configuration in containerd's words, or in ours.
//!
//! ```toml
//! # Ours.
//! default = "runc"
//! pinned = ["registry.k8s.io/pause:3.10"]
//!
//! [handlers.runc]                      # as this machine is
//! [handlers.ws2019-hyperv]
//! platform = "windows(10.0.17763)/amd64"
//! isolation = "hyperv"
//! ```
//!
//! containerd reads `plugins."io.containerd.cri.v1.images".runtime_platforms.NAME.platform`, and does
//! nothing with it; here it decides. Its own file can be used as it is: whatever else is in it is
//! passed over. A file may have both kinds of sections, and there may be several files.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use platform::windows::Isolation;
use platform::{Matcher, Platform, PlatformError, Reference, ReferenceError};
use serde::Deserialize;
use toml::{Table, Value};

/// Where containerd keeps what it knows of runtimes, since version 3 of its configuration and before.
const RUNTIMES: [&str; 2] = ["io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"];

/// Where it keeps what it knows of images.
const IMAGES: [&str; 2] = ["io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"];

/// The second is what its own migration writes by mistake.
const PLATFORMS: [&str; 2] = ["runtime_platforms", "runtime_platform"];

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML, or has something that is not understood.
    #[error("reading {file}: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// The platform of a handler is none.
    #[error("reading {file}: handler {handler}")]
    Platform {
        /// The file.
        file: String,
        /// The handler.
        handler: String,
        /// Why not.
        source: PlatformError,
    },
    /// What is to stay is no image.
    #[error("reading {file}: pinned image {image:?}")]
    Pinned {
        /// The file.
        file: String,
        /// What it says.
        image: String,
        /// Why not.
        source: ReferenceError,
    },
    /// The default handler is none of those there are.
    #[error("reading {file}: the default handler {name:?} is none of its handlers: {}", known.join(", "))]
    Default {
        /// The file.
        file: String,
        /// What it says.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// What runs containers, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// The platform whose images it runs.
    pub platform: Platform,
    /// How containers of Windows are kept apart.
    pub isolation: Isolation,
    /// What containerd would unpack images with. It is told, and nothing more.
    pub snapshotter: String,
}

impl Handler {
    /// The rule by which images are chosen.
    pub fn matcher(&self) -> Matcher {
        Matcher::isolated(&self.platform, self.isolation)
    }
}

/// All handlers there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handlers {
    default: Option<String>,
    all: BTreeMap<String, Handler>,
    pinned: BTreeSet<String>,
}

/// Our own words.
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

/// What one file says of a handler.
#[derive(Debug, Default, Clone)]
struct Said {
    platform: String,
    snapshotter: String,
    hyper_v: bool,
}

impl Handlers {
    /// One handler, the default one, for a platform: what there is without any configuration.
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

    /// Reads files, by their names and contents. Handlers that say no platform run what this machine,
    /// `host`, does.
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
        let mut said: BTreeMap<String, Said> = BTreeMap::new();
        let mut default = None;
        containerd(&table, &mut said, &mut default);
        let is_ours = table.contains_key("handlers");
        if let Some(own) = table.get("handlers") {
            let own: BTreeMap<String, Own> = own
                .clone()
                .try_into()
                .map_err(|error| wrong(format!("handlers: {error}")))?;
            for (name, own) in own {
                let said = said.entry(name).or_default();
                said.platform = own.platform;
                said.snapshotter = own.snapshotter;
                said.hyper_v = matches!(own.isolation, OwnIsolation::HyperV);
            }
        }
        if let Some(name) = text_of(&table, &["default"]) {
            default = Some(name.to_owned());
        }
        if said.is_empty() && !is_ours {
            return Err(wrong(
                "it has no handler; expected [handlers.NAME], or containerd's plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.NAME".to_owned(),
            ));
        }
        for (name, said) in said {
            let platform = if said.platform.is_empty() {
                host.clone()
            } else {
                let source = Platform::parse_on(&said.platform, host);
                source.map_err(|source| ConfigError::Platform {
                    file: file.to_owned(),
                    handler: name.clone(),
                    source,
                })?
            };
            let isolation = if said.hyper_v {
                Isolation::HyperV
            } else {
                Isolation::Process
            };
            let handler = Handler {
                platform,
                isolation,
                snapshotter: said.snapshotter,
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
            // containerd's default need not be one of ours: another service may have it.
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

    /// Has an image stay.
    pub fn pin(&mut self, reference: &Reference) {
        self.pinned.insert(reference.to_string());
    }

    /// Says whether an image of this name is to stay.
    pub fn pins(&self, name: &str) -> bool {
        self.pinned.contains(name)
    }

    /// The handler of a name; nothing is the default one.
    pub fn find(&self, name: &str) -> Option<&Handler> {
        if name.is_empty() {
            return self.all.get(self.default.as_ref()?);
        }
        self.all.get(name)
    }

    /// Has the default handler be for a platform, if there is no other.
    #[must_use]
    pub fn or_default(mut self, platform: &Platform) -> Self {
        if self.find("").is_none() {
            let only = Self::only(platform.clone());
            self.all.extend(only.all);
            self.default = only.default;
        }
        self
    }

    /// The names of all handlers but a nameless one.
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

/// What containerd's sections say.
fn containerd(table: &Table, said: &mut BTreeMap<String, Said>, default: &mut Option<String>) {
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
            let said = said.entry(name.clone()).or_default();
            said.snapshotter = text_of(runtime, &["snapshotter"])
                .unwrap_or_default()
                .into();
            said.platform = text_of(runtime, &["platform"]).map_or_else(
                || sandbox_platform(runtime).unwrap_or_default(),
                str::to_owned,
            );
            let isolation = table_of(runtime, &["options"])
                .and_then(|options| options.get("SandboxIsolation"))
                .and_then(Value::as_integer);
            said.hyper_v = isolation == Some(1);
        }
    }
    for plugin in IMAGES {
        for key in PLATFORMS {
            let Some(section) = table_of(table, &["plugins", plugin, key]) else {
                continue;
            };
            for (name, of) in section {
                let Some(of) = of.as_table() else {
                    continue;
                };
                let said = said.entry(name.clone()).or_default();
                for (key, place) in [
                    ("platform", &mut said.platform),
                    ("snapshotter", &mut said.snapshotter),
                ] {
                    if let Some(text) = text_of(of, &[key]).filter(|text| !text.is_empty()) {
                        text.clone_into(place);
                    }
                }
            }
        }
    }
}

/// What the shim of Windows is told: `SandboxPlatform` and `SandboxOsVersion`.
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

/// Images that are to stay.
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
