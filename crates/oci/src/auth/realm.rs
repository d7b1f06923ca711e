//! Which addresses a registry may send us to.
//!
//! Whoever may name an image may name a registry of their own, and that registry then names further
//! addresses: of a token server, or of the place where a blob really is. Without these rules it could
//! make us ask machines that only we can reach, or collect credentials without encryption.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::error::Cause;

/// Host and port, as registries are named, with the usual port left out.
pub(crate) fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Checks where a registry sends us for a token. `trusted` are hosts (`host[:port]`) that the
/// administrator named; with them only the address has to be one.
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
        return refuse("is no absolute address");
    };
    url.set_fragment(None);
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return refuse("is not at an https address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("has a name or password in its address");
    }
    if trusted.iter().any(|host| *host == origin(&url)) {
        return Ok(url);
    }
    let same = origin(&url) == origin(registry) && url.scheme() == registry.scheme();
    if url.scheme() == "http" {
        if registry.scheme() != "http" {
            return refuse("is not encrypted, and the registry is");
        }
        if has_credentials && !same {
            return refuse("would get credentials without encryption, and is not the registry");
        }
    }
    if !same && let Some(kind) = url.host().and_then(|host| inside(&host)) {
        return refuse(&format!("is at a {kind} address, and is not the registry"));
    }
    Ok(url)
}

/// Checks the next address of a redirect. Addresses in private networks are fine there, where object
/// stores are; those that only this machine or its hypervisor answer are not, unless the redirect
/// comes from there.
pub(crate) fn check_literal(from: &Url, to: &Url) -> Result<(), Cause> {
    let kind = |url: &Url| {
        url.host()
            .and_then(|host| inside(&host))
            .filter(|kind| *kind != "private")
    };
    match kind(to) {
        Some(found) if origin(from) != origin(to) && kind(from) != Some(found) => {
            Err(Cause::Refused(format!(
                "a redirect from {} to the {found} address {}",
                origin(from),
                origin(to)
            )))
        }
        _ => Ok(()),
    }
}

/// What kind of inner address this is, if it is one. Names are not looked up.
fn inside(host: &Host<&str>) -> Option<&'static str> {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            (name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost"))
            .then_some("loopback")
        }
        Host::Ipv4(address) => inside_v4(*address),
        Host::Ipv6(address) => inside_v6(*address),
    }
}

fn inside_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [first, second, ..] = address.octets();
    if address.is_loopback() {
        Some("loopback")
    } else if address.is_link_local() {
        Some("link-local")
    } else if first == 0 || address.is_broadcast() || address.is_multicast() {
        Some("reserved")
    } else if address.is_private() || (first == 100 && (64..128).contains(&second)) {
        Some("private")
    } else {
        None
    }
}

fn inside_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let IpAddr::V4(mapped) = address.to_canonical() {
        return inside_v4(mapped);
    }
    if address.is_loopback() {
        Some("loopback")
    } else if address.is_unicast_link_local() {
        Some("link-local")
    } else if address.is_unspecified() || address.is_multicast() {
        Some("reserved")
    } else if address.is_unique_local() {
        Some("private")
    } else {
        None
    }
}
