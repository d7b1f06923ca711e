use std::os::unix::fs::MetadataExt as _;

use rstest::rstest;

use super::*;

#[rstest]
#[case("unix:///run/a.sock", Some("/run/a.sock"))]
#[case("/run/a.sock", Some("/run/a.sock"))]
#[case("unix://run/a.sock", None)]
#[case("tcp://127.0.0.1:1", None)]
#[case("npipe:////./pipe/a", None)]
#[case("/", None)]
#[case("", None)]
fn addresses(#[case] address: &str, #[case] path: Option<&str>) {
    assert_eq!(path_of(address).ok(), path.map(PathBuf::from));
}

#[tokio::test]
async fn stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/a.sock");
    let (socket, listener) = Socket::bind(&path).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o600);
    assert!(matches!(Socket::bind(&path), Err(SocketError::Busy { .. })));
    drop(listener);
    // As after kill -9: the path exists, and no process listens.
    let (other, _listening) = Socket::bind(&path).unwrap();
    assert!(UnixStream::connect(&path).is_ok());
    // A process that ends late does not remove the socket of its successor.
    drop(socket);
    assert!(path.exists());
    drop(other);
    assert!(!path.exists());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    fs::write(&path, "something else").unwrap();
    let refused = Socket::bind(&path);
    assert!(matches!(refused, Err(SocketError::NotASocket { .. })));
}
