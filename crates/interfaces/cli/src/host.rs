//! This host: its name, and the user's data directory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Host names that the certificate of a cluster's API server has to cover.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// The same as addresses; the last is the service `default/kubernetes`.
const ADDRESSES: [&str; 3] = ["127.0.0.1", "::1", "10.0.0.1"];

/// The name of this host, or of the pod.
pub(crate) fn hostname() -> Option<String> {
    let name = rustix::system::uname();
    name.nodename().to_str().ok().map(str::to_owned)
}

/// Every name a server certificate has to cover.
pub(crate) fn server_names(address: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = NAMES
        .iter()
        .chain(&ADDRESSES)
        .map(|&name| name.to_owned())
        .collect();
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names.extend(hostname());
    names.retain(|name| is_certificate_name(name));
    names.sort();
    names.dedup();
    names
}

/// Host names may hold characters that certificates do not allow.
fn is_certificate_name(name: &str) -> bool {
    !name.is_empty()
        && (name.parse::<IpAddr>().is_ok()
            || name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')))
}

/// The address that clients on this host use for a server listening on `address`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_address_becomes_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:6443", "127.0.0.1:6443"),
            ("[::]:1", "[::1]:1"),
            ("127.0.0.1:2", "127.0.0.1:2"),
            ("192.0.2.7:3", "192.0.2.7:3"),
        ] {
            assert_eq!(
                reachable(listen.parse().unwrap()),
                expected.parse().unwrap(),
                "{listen}"
            );
        }
    }

    #[test]
    fn certificate_covers_all_names_of_the_server() {
        let names = server_names("192.0.2.7".parse().unwrap());
        for name in [
            "localhost",
            "kubernetes.default.svc",
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "192.0.2.7",
        ] {
            assert!(names.iter().any(|have| have == name), "{name} in {names:?}");
        }
        assert!(!server_names("0.0.0.0".parse().unwrap()).contains(&"0.0.0.0".to_owned()));
    }

    #[test]
    fn odd_host_names_stay_out_of_certificates() {
        assert!(is_certificate_name("host-1.example_x"));
        for odd in ["", "häuschen", "two words", "a/b"] {
            assert!(!is_certificate_name(odd), "{odd}");
        }
    }
}
