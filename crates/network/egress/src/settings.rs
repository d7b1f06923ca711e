//! Which proxy a URL is reached through: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
//!
//! The rules are those of Go's `golang.org/x/net/http/httpproxy`, which kubectl, oc and CDI use, with one difference: a
//! value that is not the URL of a proxy is an error here. Go ignores it and connects directly, which looks like a
//! network failure to its users.

mod no_proxy;
mod proxy;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use http::header::HeaderValue;
use http::uri::{Scheme, Uri};

use self::no_proxy::NoProxy;
pub use self::proxy::{Proxy, ProxyError, ProxyScheme};

/// The proxies of a process or a cluster. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    http: Option<Proxy>,
    https: Option<Proxy>,
    no_proxy: NoProxy,
}

impl ProxySettings {
    /// The settings in the environment of this process.
    pub fn from_env() -> Result<Self, ProxyError> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// The settings in variables. An upper-case name takes precedence over the lower-case one; an empty value counts
    /// as unset.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let value = |name: &str| {
            [name.to_owned(), name.to_ascii_lowercase()]
                .into_iter()
                .find_map(|name| variable(&name).filter(|value| !value.is_empty()))
                .unwrap_or_default()
        };
        Self::new(
            &value("HTTP_PROXY"),
            &value("HTTPS_PROXY"),
            &value("NO_PROXY"),
        )
    }

    /// The settings from their values: the proxy of `http` URLs, the proxy of `https` URLs (each may be empty), and the
    /// exceptions.
    pub fn new(http: &str, https: &str, no_proxy: &str) -> Result<Self, ProxyError> {
        Ok(Self {
            http: Proxy::parse("HTTP_PROXY", http)?,
            https: Proxy::parse("HTTPS_PROXY", https)?,
            no_proxy: NoProxy::parse(no_proxy),
        })
    }

    /// The environment of a program that is to have the same settings, in lower case as in CDI's importer pods. The values
    /// contain the credentials.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let url = |proxy: &Option<Proxy>| proxy.as_ref().map(Proxy::url);
        let exceptions = Some(self.no_proxy.text()).filter(|text| !text.is_empty());
        let all = [
            ("http_proxy", url(&self.http)),
            ("https_proxy", url(&self.https)),
            ("no_proxy", exceptions.map(str::to_owned)),
        ];
        let all = all.into_iter().filter(|_| !self.is_empty());
        all.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// The same proxy for every URL, without exceptions: `proxy-url` of a kubeconfig.
    pub fn always(proxy: &str) -> Result<Self, ProxyError> {
        let proxy = Proxy::parse("proxy-url", proxy)?;
        Ok(Self {
            http: proxy.clone(),
            https: proxy,
            no_proxy: NoProxy::nothing(),
        })
    }

    /// Whether there is no proxy.
    pub fn is_empty(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// Whether the connection to a proxy is itself TLS.
    pub fn has_tls(&self) -> bool {
        let mut all = self.http.iter().chain(&self.https);
        all.any(|proxy| proxy.scheme() == ProxyScheme::Https)
    }

    /// The proxy that a URL is reached through; `None` for a direct connection.
    pub fn proxy_for(&self, url: &Uri) -> Option<&Proxy> {
        let is_tls = url.scheme() == Some(&Scheme::HTTPS);
        let proxy = if is_tls {
            self.https.as_ref()?
        } else if url.scheme() == Some(&Scheme::HTTP) {
            self.http.as_ref()?
        } else {
            return None;
        };
        let host = bare(url.host()?).trim().to_ascii_lowercase();
        let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        (!self.no_proxy.excludes(&host, port)).then_some(proxy)
    }

    /// The `Proxy-Authorization` header of a request to a URL. Only a proxy that forwards plain HTTP reads it from the
    /// request: with `https` it is part of `CONNECT`, and here it would reach the server.
    pub fn authorization(&self, url: &Uri) -> Option<HeaderValue> {
        let proxy = self.proxy_for(url).filter(|proxy| proxy.forwards(url))?;
        proxy.authorization()
    }
}

/// A host without the brackets of an IPv6 address.
pub(crate) fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The address that a host is, if it is not a name.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    bare(host).parse().ok()
}
