//! One proxy.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use http::uri::{Scheme, Uri};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

/// The protocol that a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyScheme {
    /// HTTP: `CONNECT` for TLS, forwarding for plain HTTP.
    Http,
    /// The same inside TLS.
    Https,
    /// SOCKS version 5; the proxy resolves names.
    Socks5,
}

impl ProxyScheme {
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            "socks5" | "socks5h" => Some(Self::Socks5),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
        }
    }

    fn usual_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Socks5 => 1080,
        }
    }
}

/// Why a value is not the URL of a proxy. The value is not shown: it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} is not the URL of a proxy: {why}; http://HOST:PORT, https:// and socks5:// are accepted, with USER:PASSWORD@ before the host"
)]
pub struct ProxyError {
    name: String,
    why: String,
}

/// A proxy and its credentials, which appear neither in `Debug` nor in `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    scheme: ProxyScheme,
    /// As in URLs: an IPv6 address is in brackets.
    host: String,
    port: u16,
    credentials: Option<(String, String)>,
}

impl Proxy {
    /// The proxy in a setting; `None` if it is empty. A value without a scheme is an HTTP proxy.
    pub(super) fn parse(name: &str, value: &str) -> Result<Option<Self>, ProxyError> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(None);
        }
        let wrong = |why: &str| ProxyError {
            name: name.to_owned(),
            why: why.to_owned(),
        };
        // `proxy:3128` parses as a URL with the scheme `proxy`, without a host.
        let url = match Url::parse(value) {
            Ok(url) if url.has_host() => url,
            Err(why) if value.contains("://") => return Err(wrong(&why.to_string())),
            _ => Url::parse(&format!("http://{value}")).map_err(|why| wrong(&why.to_string()))?,
        };
        let scheme = ProxyScheme::of(url.scheme())
            .ok_or_else(|| wrong(&format!("the scheme {:?} is unknown", url.scheme())))?;
        let host = url.host_str().filter(|host| !host.is_empty());
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        Ok(Some(Self {
            scheme,
            host: host.ok_or_else(|| wrong("it has no host"))?.to_owned(),
            port: url.port().unwrap_or_else(|| scheme.usual_port()),
            credentials: has_credentials.then(|| {
                let password = url.password().unwrap_or_default();
                (decoded(url.username()), decoded(password))
            }),
        }))
    }

    /// Its protocol.
    pub fn scheme(&self) -> ProxyScheme {
        self.scheme
    }

    /// Its host, without brackets.
    pub fn host(&self) -> &str {
        super::bare(&self.host)
    }

    /// The address to connect to.
    pub(crate) fn uri(&self) -> Result<Uri, http::Error> {
        let scheme = match self.scheme {
            ProxyScheme::Https => Scheme::HTTPS,
            ProxyScheme::Http | ProxyScheme::Socks5 => Scheme::HTTP,
        };
        Uri::builder()
            .scheme(scheme)
            .authority(format!("{}:{}", self.host, self.port))
            .path_and_query("/")
            .build()
    }

    /// Whether requests to a URL are sent to the proxy itself, which forwards them.
    pub(crate) fn forwards(&self, url: &Uri) -> bool {
        self.scheme != ProxyScheme::Socks5 && url.scheme() == Some(&Scheme::HTTP)
    }

    /// The URL, with the credentials. For the environment of other programs only.
    pub(super) fn url(&self) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let credentials = self
            .credentials()
            .map(|(name, password)| format!("{}:{}@", encoded(name), encoded(password)));
        format!(
            "{}://{}{}:{}",
            self.scheme.name(),
            credentials.unwrap_or_default(),
            self.host,
            self.port
        )
    }

    /// The user name and password.
    pub(crate) fn credentials(&self) -> Option<(&str, &str)> {
        let (name, password) = self.credentials.as_ref()?;
        Some((name, password))
    }

    /// The header with the credentials.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        let (name, password) = self.credentials()?;
        let encoded = STANDARD.encode(format!("{name}:{password}"));
        // Base64 is always valid in a header.
        let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.name(), self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}
