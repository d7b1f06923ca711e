//! Unpacked layers: files as in the image, layer over layer, and nothing outside.

use std::fs;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Command;

use rstest::rstest;
use serde_json::json;
use testkit::Tar;
use tonic::Code;

use crate::node::{Node, NodeFixture, named, rootfs};

/// Pulls an image of these layers; where its files are.
async fn unpacked(layers: &[Tar]) -> (NodeFixture, Node, Result<PathBuf, tonic::Status>) {
    let layers: Vec<Vec<u8>> = layers.iter().map(|layer| layer.clone().finish()).collect();
    unpacked_bytes(&layers).await
}

async fn unpacked_bytes(layers: &[Vec<u8>]) -> (NodeFixture, Node, Result<PathBuf, tonic::Status>) {
    let mut world = NodeFixture::new().await;
    let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
    let config = json!({"os": "linux", "architecture": "amd64"});
    let image = world.layout().image_of(&config, &layers).unwrap();
    let image = world.push(&image, "unpacked:1");
    let node = world.node(world.wishes());
    let place = match node.client.pull(named(&image), None).await {
        Ok(_) => Ok(rootfs(&node.client, named(&image)).await),
        Err(status) => Err(status),
    };
    (world, node, place)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_as_the_image_has_them() {
    let layer = Tar::new()
        .folder("", 0o700)
        .folder("read-only", 0o555)
        .file("read-only/file", 0o4755, "set-user-id")
        .record("SCHILY.xattr.user.colour", b"blue")
        .record("SCHILY.xattr.trusted.overlay.opaque", b"y")
        .record("mtime", b"1600000000.25")
        .file("attributes", 0o600, "x")
        .hard_link("another", "read-only/file")
        .symbolic_link("soft", "/read-only/file")
        .special(b'6', "pipe")
        .file("no/folder/said", 0o644, "");
    let (_world, _node, place) = unpacked(&[layer]).await;
    let place = place.unwrap();
    let about = |path: &str| fs::symlink_metadata(place.join(path)).unwrap();
    let mode = |path: &str| about(path).permissions().mode() & 0o7777;
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("read-only"), 0o555);
    assert_eq!(mode("read-only/file"), 0o4755);
    assert_eq!(mode("attributes"), 0o600);
    assert_eq!(mode("no/folder"), 0o755);
    assert_eq!(about("another").ino(), about("read-only/file").ino());
    assert_eq!(
        fs::read_link(place.join("soft")).unwrap(),
        PathBuf::from("/read-only/file")
    );
    assert!(about("pipe").file_type().is_fifo());
    let modified = about("attributes");
    assert_eq!(
        (modified.mtime(), modified.mtime_nsec()),
        (1_600_000_000, 250_000_000)
    );
    assert_eq!(about("read-only").mtime(), 0o14_524_770_400);
    if rustix::process::geteuid().is_root() {
        assert_eq!(
            (about("read-only/file").uid(), about("soft").gid()),
            (1000, 1001)
        );
    }
    let mut value = [0; 16];
    let path = place.join("attributes");
    let length = rustix::fs::getxattr(&path, "user.colour", &mut value).unwrap();
    assert_eq!(&value[..length], b"blue");
    let reserved = rustix::fs::getxattr(&path, "trusted.overlay.opaque", &mut value);
    assert!(reserved.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_lie_over_each_other() {
    let below = Tar::new()
        .folder("a", 0o755)
        .file("a/stays", 0o644, "below")
        .file("a/goes", 0o644, "below")
        .file("a/changes", 0o644, "below")
        .folder("opaque", 0o755)
        .file("opaque/old", 0o644, "below")
        .folder("opaque/deep", 0o755)
        .file("opaque/deep/old", 0o644, "below")
        .folder("folder-to-file", 0o755)
        .file("folder-to-file/x", 0o644, "below")
        .file("file-to-folder", 0o644, "below")
        .folder("usr/lib", 0o755)
        .symbolic_link("lib", "usr/lib")
        .symbolic_link("absolute", "/usr/lib")
        .folder("whole", 0o755)
        .file("whole/x", 0o644, "below");
    let above = Tar::new()
        .file("a/.wh.goes", 0o644, "")
        .file("a/changes", 0o600, "above")
        // In any order: entries of the same layer stay.
        .file("opaque/new", 0o644, "above")
        .folder("opaque/deep", 0o755)
        .file("opaque/deep/new", 0o644, "above")
        .file("opaque/.wh..wh..opq", 0o644, "")
        .file("folder-to-file", 0o644, "above")
        .folder("file-to-folder", 0o755)
        .file("file-to-folder/x", 0o644, "above")
        // Through links of a lower layer.
        .file("lib/through", 0o644, "above")
        .file("absolute/through-too", 0o644, "above")
        .hard_link("linked", "a/stays")
        .file(".wh.whole", 0o644, "")
        .file(".wh..wh.plnk", 0o644, "");
    let (_world, _node, place) = unpacked(&[below, above]).await;
    let place = place.unwrap();
    let read = |path: &str| fs::read_to_string(place.join(path)).ok();
    for (path, content) in [
        ("a/stays", Some("below")),
        ("a/goes", None),
        ("a/changes", Some("above")),
        ("opaque/old", None),
        ("opaque/new", Some("above")),
        ("opaque/deep/old", None),
        ("opaque/deep/new", Some("above")),
        ("folder-to-file", Some("above")),
        ("file-to-folder/x", Some("above")),
        ("usr/lib/through", Some("above")),
        ("usr/lib/through-too", Some("above")),
        ("linked", Some("below")),
        ("whole/x", None),
        ("a/.wh.goes", None),
        (".wh..wh.plnk", None),
    ] {
        assert_eq!(read(path).as_deref(), content, "{path}");
    }
    assert!(
        fs::symlink_metadata(place.join("lib"))
            .unwrap()
            .is_symlink()
    );
}

#[rstest]
#[case::up(Tar::new().file("../../out", 0o644, "x"), "\"..\"")]
#[case::inside(Tar::new().file("a/../../out", 0o644, "x"), "\"..\"")]
#[case::hard_link(Tar::new().hard_link("a", "../../../etc/passwd"), "\"..\"")]
#[case::hard_link_to_nothing(Tar::new().hard_link("a", "etc/passwd"), "not in the image")]
#[case::whiteout(Tar::new().file("a/.wh...", 0o644, ""), "whiteout")]
#[case::circle(Tar::new().symbolic_link("a", "b").symbolic_link("b", "a").file("a/x", 0o644, ""), "circles")]
#[case::file_as_folder(Tar::new().file("a", 0o644, "").file("a/x", 0o644, ""), "not a folder")]
#[case::sparse(Tar::new().record("GNU.sparse.size", b"10").file("a", 0o644, "x"), "sparse")]
#[case::long_part(Tar::new().record("path", &[b'n'; 256]).file("a", 0o644, ""), "the maximum is 255")]
#[case::data_of_a_link(Tar::new().record("size", b"512").symbolic_link("a", "b"), "only files have data")]
#[tokio::test(flavor = "multi_thread")]
async fn entries_outside_the_image_are_rejected(#[case] layer: Tar, #[case] message: &str) {
    let (_world, node, place) = unpacked(&[layer]).await;
    let refused = place.unwrap_err();
    assert_eq!(refused.code(), Code::DataLoss, "{refused}");
    testkit::has(refused.message(), &[message]);
    assert_eq!(node.client.list(None).await.unwrap(), []);
}

/// Archives of all GNU tar formats are unpacked: sparse files stay sparse, and a slash may be the
/// hundredth byte of a path.
#[rstest]
#[case::gnu(&["--format=gnu"])]
#[case::old_gnu(&["--format=oldgnu"])]
#[case::pax_0_0(&["--format=pax", "--sparse-version=0.0"])]
#[case::pax_0_1(&["--format=pax", "--sparse-version=0.1"])]
#[case::pax_1_0(&["--format=pax", "--sparse-version=1.0"])]
#[tokio::test(flavor = "multi_thread")]
async fn layers_of_gnu_tar_are_unpacked(#[case] arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{}/{}", "d".repeat(99), "e".repeat(50));
    fs::create_dir(folder.path().join("d".repeat(99))).unwrap();
    fs::write(folder.path().join(&long), "long").unwrap();
    let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
    for island in 0..30_u64 {
        sparse.write_all_at(&[7; 4096], island << 20).unwrap();
    }
    sparse.set_len(64 << 20).unwrap();
    let archive = Command::new("tar")
        .args(["-C", folder.path().to_str().unwrap(), "-S", "-cf", "-"])
        .args(arguments)
        .args([&long, "sparse"])
        .output()
        .unwrap();
    assert!(archive.status.success(), "{archive:?}");
    assert!(archive.stdout.len() < 1 << 20);
    let (_world, _node, place) = unpacked_bytes(&[archive.stdout]).await;
    let place = place.unwrap();
    assert_eq!(fs::read_to_string(place.join(&long)).unwrap(), "long");
    let (found, expected) = (place.join("sparse"), folder.path().join("sparse"));
    assert!(fs::read(&found).unwrap() == fs::read(expected).unwrap());
    let blocks = fs::metadata(&found).unwrap().blocks() * 512;
    assert!(blocks < 8 << 20, "{blocks} bytes are stored");
}

/// Links lead somewhere in the image, however they are written.
#[tokio::test(flavor = "multi_thread")]
async fn links_lead_nowhere_outside() {
    let layer = Tar::new()
        .symbolic_link("absolute", "/tmp")
        .file("absolute/inside", 0o644, "x")
        .symbolic_link("up", "../../../../../../tmp/up")
        .file("up/inside", 0o644, "x");
    let (_world, _node, place) = unpacked(&[layer]).await;
    let place = place.unwrap();
    assert!(place.join("tmp/inside").is_file());
    assert!(place.join("tmp/up/inside").is_file());
    assert!(!std::path::Path::new("/tmp/up/inside").exists());
}
