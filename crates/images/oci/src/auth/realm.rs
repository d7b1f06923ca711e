//! Which addresses a registry may redirect the client to.
//!
//! A user who may name an image may name a registry of their own, and that registry names further
//! addresses: of a token server, or of a blob's storage. Without these rules it could make the client
//! send requests to hosts that only the client can reach (SSRF), or collect credentials without
//! encryption.

use platform::AddressClass;
use url::{Host, Url};

use crate::error::Cause;

/// Host and port in the form registries are named, without the default port.
pub(crate) fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Checks the token server a registry names. `trusted` are hosts (`host[:port]`) the administrator
/// configured; for these, only the syntax of the address is checked.
pub(crate) fn check(
    realm: &str,
    registry: &Url,
    has_credentials: bool,
    trusted: &[String],
) -> Result<Url, Cause> {
    let shown = crate::error::clean(realm, &[]);
    let refuse = |why: &str| {
        Err(Cause::Refused(format!(
            "the token server {shown:?} that {} names {why}",
            origin(registry)
        )))
    };
    let Ok(mut url) = Url::parse(realm) else {
        return refuse("is not an absolute URL");
    };
    url.set_fragment(None);
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return refuse("is not at an https address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("has a name or password in its address");
    }
    // After the syntax checks and before the address checks: trusting a token server that is in the cluster network
    // is the purpose of the setting, an address with a password in it never is.
    if trusted.iter().any(|host| *host == origin(&url)) {
        return Ok(url);
    }
    let same = origin(&url) == origin(registry) && url.scheme() == registry.scheme();
    if url.scheme() == "http" {
        if registry.scheme() != "http" {
            return refuse("is not encrypted, and the registry is");
        }
        // Without credentials the worst case is an anonymous token over plain HTTP, which a registry without TLS may
        // need.
        if has_credentials && !same {
            return refuse("would receive credentials without encryption, and is not the registry");
        }
    }
    if !same && let Some(class) = url.host().and_then(|host| inside(&host)) {
        return refuse(&format!("is at a {class} address, and is not the registry"));
    }
    Ok(url)
}

/// Checks the next address of a redirect. Private networks are allowed, as object stores are there;
/// loopback and link-local addresses are not, unless the redirect comes from such an address.
///
/// This also applies to the CLI, whose client may otherwise connect anywhere. For services, the
/// connector also checks the addresses that names resolve to.
pub(crate) fn check_literal(from: &Url, to: &Url) -> Result<(), Cause> {
    let class = |url: &Url| {
        let class = url.host().and_then(|host| inside(&host));
        class.filter(|class| class.is_restricted())
    };
    match class(to) {
        Some(found) if origin(from) != origin(to) && class(from) != Some(found) => {
            Err(Cause::Refused(format!(
                "a redirect from {} to the {found} address {}",
                origin(from),
                origin(to)
            )))
        }
        _ => Ok(()),
    }
}

/// The class of an internal address; `None` for a public one. Names are not resolved.
fn inside(host: &Host<&str>) -> Option<AddressClass> {
    let class = match host {
        // Only the names that every resolver maps to loopback. What other names resolve to is checked in the
        // connector, after the lookup; a check here could be evaded by DNS rebinding.
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let is_local = name == "localhost" || name.ends_with(".localhost");
            return is_local.then_some(AddressClass::Loopback);
        }
        Host::Ipv4(address) => AddressClass::of((*address).into()),
        Host::Ipv6(address) => AddressClass::of((*address).into()),
    };
    (class != AddressClass::Public).then_some(class)
}
