//! This machine: its name, and where a user's data belongs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context as _;

/// Names under which pods and people reach the server of a cluster.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// The same as addresses; the last is the service `default/kubernetes`.
const ADDRESSES: [&str; 3] = ["127.0.0.1", "::1", "10.0.0.1"];

/// The folder for what the program keeps: `$XDG_DATA_HOME/medley` or `~/.local/share/medley`.
pub(crate) fn data_folder() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    // The specification of these folders says to pass over relative ones.
    let base = match given.filter(|path| path.is_absolute()) {
        Some(base) => base,
        None => std::env::home_dir()
            .filter(|home| home.is_absolute())
            .map(|home| home.join(".local/share"))
            .context("there is no home directory to keep data in; name a folder with --data, or use --memory")?,
    };
    Ok(base.join("medley"))
}

/// The name of this machine, or of the pod.
pub(crate) fn hostname() -> Option<String> {
    let name = rustix::system::uname();
    name.nodename().to_str().ok().map(str::to_owned)
}

/// Every name a server certificate has to be good for.
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

/// Host names may hold characters that certificates do not.
fn is_certificate_name(name: &str) -> bool {
    !name.is_empty()
        && (name.parse::<IpAddr>().is_ok()
            || name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')))
}

/// The address clients on this machine use for a server that listens on `address`.
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
    fn everybody_is_nobodys_address() {
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
    fn a_certificate_names_the_server_as_pods_and_people_do() {
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
