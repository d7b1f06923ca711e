//! containerd's `hosts.toml`: one folder per registry.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use url::Url;

use super::{Endpoint, MirrorError, Security, direct};
use crate::trust::Tls;

/// Upper bound of a file, certificates included.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The folder for all registries without one of their own.
const DEFAULT: &str = "_default";

/// The configured hosts, by registry name.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    registries: BTreeMap<String, Vec<Place>>,
}

/// A host that serves a registry's images.
#[derive(Debug, Clone)]
struct Place {
    /// `None` for the registry itself.
    url: Option<Url>,
    override_path: bool,
    can: Capabilities,
    skip_verify: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    tls: Option<Arc<Tls>>,
}

/// The capabilities of a host.
#[derive(Debug, Clone, Copy)]
struct Capabilities {
    resolve: bool,
    pull: bool,
}

#[derive(Deserialize)]
struct File {
    server: Option<String>,
    #[serde(default)]
    host: toml::Table,
    #[serde(flatten)]
    own: Options,
}

#[derive(Deserialize, Default)]
struct Options {
    capabilities: Option<Vec<String>>,
    ca: Option<OneOrMore>,
    client: Option<toml::Value>,
    #[serde(default)]
    skip_verify: bool,
    #[serde(default)]
    override_path: bool,
    #[serde(default)]
    header: BTreeMap<String, OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

impl Hosts {
    /// Reads a folder as containerd's `config_path`: a folder per registry with a `hosts.toml`, or with
    /// certificates in Docker's layout. Blocking.
    pub fn load(folder: &Path) -> Result<Self, MirrorError> {
        let wrong = |path: &Path, error: std::io::Error| {
            MirrorError::new(path.display().to_string(), error.to_string())
        };
        let mut hosts = Self::default();
        for entry in std::fs::read_dir(folder).map_err(|error| wrong(folder, error))? {
            let path = entry.map_err(|error| wrong(folder, error))?.path();
            if path.is_dir() {
                hosts.add_folder(&path)?;
            }
        }
        Ok(hosts)
    }

    /// Reads the folder of one registry, named after it. Blocking.
    pub fn load_one(folder: &Path) -> Result<Self, MirrorError> {
        let mut hosts = Self::default();
        hosts.add_folder(folder)?;
        Ok(hosts)
    }

    fn add_folder(&mut self, path: &Path) -> Result<(), MirrorError> {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Ok(());
        };
        let file = path.join("hosts.toml");
        if file.is_file() {
            let text = read(&file)?;
            let what = file.display().to_string();
            self.add(&host_of(name), &what, &text, path, &read)?;
        } else if let Some(tls) = docker_layout(path)? {
            let mut place = Place::new(None);
            place.tls = Some(Arc::new(tls));
            self.registries.insert(host_of(name), vec![place]);
        }
        Ok(())
    }

    /// Adds the `hosts.toml` of a registry (`_default` for all without one). Relative paths start at
    /// `folder`, and `read` reads the files it names.
    pub fn add(
        &mut self,
        registry: &str,
        what: &str,
        text: &[u8],
        folder: &Path,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, MirrorError>,
    ) -> Result<(), MirrorError> {
        let text = std::str::from_utf8(text).map_err(|_| MirrorError::new(what, "not UTF-8"))?;
        let file: File =
            toml::from_str(text).map_err(|error| MirrorError::new(what, error.message()))?;
        let mut places = Vec::new();
        for (address, options) in file.host {
            let options: Options = options
                .try_into()
                .map_err(|error: toml::de::Error| MirrorError::new(what, error.message()))?;
            let url = address_of(&address, what)?;
            places.push(Place::with(Some(url), &options, what, folder, read)?);
        }
        let server = file
            .server
            .map(|server| address_of(&server, what))
            .transpose()?;
        places.push(Place::with(server, &file.own, what, folder, read)?);
        self.registries.insert(registry.to_owned(), places);
        Ok(())
    }

    /// The endpoints of an image, if its registry is configured.
    pub(super) fn sources(
        &self,
        host: &str,
        repository: &str,
        by_digest: bool,
    ) -> Option<Vec<Endpoint>> {
        let places = self
            .registries
            .get(host)
            .or_else(|| self.registries.get(DEFAULT))?;
        let last = places.len().checked_sub(1)?;
        let mut found = Vec::new();
        for (at, place) in places.iter().enumerate() {
            // A host without `resolve` must not decide which image a tag refers to.
            if !place.can.pull || !(place.can.resolve || by_digest) {
                continue;
            }
            let mut endpoint = place.endpoint(host, repository);
            endpoint.is_mirror = at < last;
            found.push(endpoint);
        }
        // If no host is usable, containerd contacts the registry itself.
        if found.is_empty() {
            found.push(direct(host, repository));
        }
        Some(found)
    }
}

impl Place {
    fn new(url: Option<Url>) -> Self {
        Self {
            url,
            override_path: false,
            can: Capabilities {
                resolve: true,
                pull: true,
            },
            skip_verify: false,
            headers: Vec::new(),
            tls: None,
        }
    }

    fn with(
        url: Option<Url>,
        options: &Options,
        what: &str,
        folder: &Path,
        read: &dyn Fn(&Path) -> Result<Vec<u8>, MirrorError>,
    ) -> Result<Self, MirrorError> {
        let mut place = Self::new(url);
        place.skip_verify = options.skip_verify;
        place.override_path = options.override_path;
        if let Some(capabilities) = &options.capabilities {
            for capability in capabilities {
                if !["pull", "resolve", "push", "referrers"].contains(&capability.as_str()) {
                    return Err(MirrorError::new(
                        what,
                        format!("capability {capability:?}: expected pull, resolve or push"),
                    ));
                }
            }
            let has = |name: &str| capabilities.iter().any(|capability| capability == name);
            place.can = Capabilities {
                resolve: has("resolve"),
                pull: has("pull"),
            };
        }
        for (name, values) in &options.header {
            for value in values.all() {
                let header = HeaderName::try_from(name)
                    .ok()
                    .zip(HeaderValue::try_from(value).ok());
                let (name, mut value) = header.ok_or_else(|| {
                    MirrorError::new(
                        what,
                        format!(
                            "header {name:?} is not a valid header name, or its value is invalid"
                        ),
                    )
                })?;
                value.set_sensitive(true);
                place.headers.push((name, value));
            }
        }
        let mut tls = Tls::default();
        for path in options.ca.iter().flat_map(OneOrMore::all) {
            let path = folder.join(path);
            tls.add_authorities(&read(&path)?)
                .map_err(|why| MirrorError::new(path.display().to_string(), why))?;
        }
        for (certificate, key) in clients(options.client.as_ref(), what)? {
            let certificate = folder.join(certificate);
            let mut pem = read(&certificate)?;
            if let Some(key) = key {
                pem.push(b'\n');
                pem.extend(read(&folder.join(key))?);
            }
            tls.set_client(&pem)
                .map_err(|why| MirrorError::new(certificate.display().to_string(), why))?;
        }
        place.tls = (!tls.is_empty()).then(|| Arc::new(tls));
        Ok(place)
    }

    fn endpoint(&self, host: &str, repository: &str) -> Endpoint {
        let mut endpoint = direct(host, repository);
        if let Some(url) = &self.url {
            let upstream = endpoint.host.clone();
            endpoint.host = crate::auth::origin(url);
            if endpoint.host != upstream && endpoint.host != host {
                endpoint.namespace = Some(host.to_owned());
                endpoint.known_as.clone_from(&endpoint.host);
            }
            let path = url.path().trim_end_matches('/');
            endpoint.base = if self.override_path || path.ends_with("/v2") {
                path.to_owned()
            } else {
                format!("{path}/v2")
            };
            if url.scheme() == "http" {
                endpoint.security = Security::Plain;
            }
        }
        if self.skip_verify && endpoint.security == Security::Verified {
            endpoint.security = Security::Unverified;
        }
        endpoint.headers.clone_from(&self.headers);
        endpoint.tls.clone_from(&self.tls);
        endpoint
    }
}

/// The URL of a host: https by default.
fn address_of(text: &str, what: &str) -> Result<Url, MirrorError> {
    let full = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    Url::parse(&full)
        .ok()
        .filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some_and(|host| !host.is_empty())
                && url.username().is_empty()
                && url.password().is_none()
        })
        .ok_or_else(|| {
            MirrorError::new(
                what,
                format!("host {text:?}: expected [http[s]://]host[:port][/path]"),
            )
        })
}

/// `client`: a file with certificate and key, a list of those, or a list of pairs.
fn clients(
    value: Option<&toml::Value>,
    what: &str,
) -> Result<Vec<(String, Option<String>)>, MirrorError> {
    let wrong = || MirrorError::new(what, "client: expected a path, paths, or pairs of paths");
    let one = |value: &toml::Value| -> Result<(String, Option<String>), MirrorError> {
        match value {
            toml::Value::String(path) => Ok((path.clone(), None)),
            toml::Value::Array(pair) => match pair.as_slice() {
                [toml::Value::String(certificate), toml::Value::String(key)] => Ok((
                    certificate.clone(),
                    Some(key.clone()).filter(|key| !key.is_empty()),
                )),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    };
    match value {
        None => Ok(Vec::new()),
        Some(toml::Value::Array(all)) => all.iter().map(one).collect(),
        Some(path) => Ok(vec![one(path)?]),
    }
}

/// The registry of a folder name: colons are not allowed in file names everywhere.
fn host_of(folder: &str) -> String {
    match folder
        .strip_suffix('_')
        .and_then(|rest| rest.rsplit_once('_'))
    {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{host}:{port}")
        }
        _ => folder.to_owned(),
    }
}

/// Docker's layout: `*.crt` are CA certificates, `*.cert` with `*.key` is the client's.
fn docker_layout(folder: &Path) -> Result<Option<Tls>, MirrorError> {
    let wrong = |path: &Path, why: String| MirrorError::new(path.display().to_string(), why);
    let entries = std::fs::read_dir(folder).map_err(|error| wrong(folder, error.to_string()))?;
    let mut tls = Tls::default();
    for entry in entries {
        let path = entry
            .map_err(|error| wrong(folder, error.to_string()))?
            .path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("crt") => {
                tls.add_authorities(&read(&path)?)
                    .map_err(|why| wrong(&path, why))?;
            }
            Some("cert") => {
                let mut pem = read(&path)?;
                pem.push(b'\n');
                pem.extend(read(&path.with_extension("key"))?);
                tls.set_client(&pem).map_err(|why| wrong(&path, why))?;
            }
            _ => {}
        }
    }
    Ok((!tls.is_empty()).then_some(tls))
}

fn read(path: &Path) -> Result<Vec<u8>, MirrorError> {
    let wrong = |why: String| MirrorError::new(path.display().to_string(), why);
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(format!("more than {MAX_FILE_BYTES} bytes")));
    }
    Ok(bytes)
}
