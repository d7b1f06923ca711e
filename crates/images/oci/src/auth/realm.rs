//! Which addresses a registry may send us to.
//!
//! Whoever may name an image may name a registry of their own, and that registry then names further
//! addresses: of a token server, or of the place where a blob really is. Without these rules it could
//! make us ask machines that only we can reach, or collect credentials without encryption.

use platform::AddressClass;
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
    if !same && let Some(class) = url.host().and_then(|host| inside(&host)) {
        return refuse(&format!("is at a {class} address, and is not the registry"));
    }
    Ok(url)
}

/// Checks the next address of a redirect. Addresses in private networks are fine there, where object
/// stores are; those that only this machine or its hypervisor answer are not, unless the redirect
/// comes from there.
///
/// This holds for users as well, whose clients connect anywhere. What names resolve to is checked by the
/// connector, for services.
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

/// What kind of inner address this is, if it is one. Names are not looked up.
fn inside(host: &Host<&str>) -> Option<AddressClass> {
    let class = match host {
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
