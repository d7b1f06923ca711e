//! Fuzzing entry points: each takes arbitrary bytes and panics if an invariant is violated.

use std::fmt::Write as _;

use tokio::time::Instant;
use url::Url;

use crate::auth::{Demand, Token, check, origin};

/// Challenges, one header per line: re-serializing a parsed challenge gives the same one, and its realm
/// is an address a registry may redirect to.
pub fn challenge(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Some(demand) = Demand::read(text.lines()) else {
        return;
    };
    let Demand::Bearer {
        realm,
        service,
        scope,
    } = &demand
    else {
        return;
    };
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut written = format!("Bearer realm=\"{}\"", quoted(realm));
    for (name, value) in [("service", service), ("scope", scope)] {
        if let Some(value) = value {
            // Writing to a string does not fail.
            let _ = write!(written, ",{name}=\"{}\"", quoted(value));
        }
    }
    // Longer ones are not read.
    if written.len() <= 8192 {
        assert_eq!(
            Demand::read([written.as_str()].into_iter()).as_ref(),
            Some(&demand)
        );
    }
    for registry in ["https://registry.example", "http://127.0.0.1:5000"] {
        let registry = Url::parse(registry).expect("it is an address");
        for has_credentials in [false, true] {
            if let Ok(url) = check(realm, &registry, has_credentials, &[]) {
                allowed(&url, &registry, has_credentials);
            }
        }
    }
}

/// The rules of `check`, implemented independently.
fn allowed(url: &Url, registry: &Url, has_credentials: bool) {
    assert!(
        url.username().is_empty() && url.password().is_none(),
        "{url}"
    );
    let same = url.scheme() == registry.scheme() && origin(url) == origin(registry);
    if same {
        return;
    }
    assert!(url.scheme() == "https" || (url.scheme() == "http" && registry.scheme() == "http"));
    assert!(
        url.scheme() == "https" || !has_credentials,
        "{url} would get them in the clear"
    );
    let host = url.host_str().expect("an address has a host");
    for inner in [
        "localhost",
        "127.",
        "169.254.",
        "10.",
        "192.168.",
        "[::1]",
        "[fe80:",
        "[::ffff:7f",
    ] {
        // A name may begin with digits, an address has nothing else.
        let address = host.parse::<std::net::Ipv4Addr>().is_ok() || host.starts_with('[');
        assert!(
            !((address || inner == host) && host.starts_with(inner)),
            "{url} is inside"
        );
    }
}

/// The response of a token server: an accepted token fits in a header and is valid for a while.
pub fn token(data: &[u8]) {
    let asked = Instant::now();
    if let Ok(token) = Token::read(data, asked) {
        let value = token.value.expose();
        assert!(!value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(token.is_valid(asked));
    }
}
