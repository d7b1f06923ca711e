use std::collections::HashMap;
use std::io::{Cursor, Read as _};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::archive::Member;
use super::*;
use crate::{Cause, Roots, Routes, Settings};

fn header(name: &[u8], kind: u8, size: &[u8]) -> Vec<u8> {
    let mut header = vec![0_u8; 512];
    header[..name.len()].copy_from_slice(name);
    header[124..124 + size.len()].copy_from_slice(size);
    header[156] = kind;
    header[257..263].copy_from_slice(b"ustar\0");
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(
        name.as_bytes(),
        kind,
        format!("{:o}", content.len()).as_bytes(),
    );
    bytes.extend(content);
    bytes.resize(bytes.len().div_ceil(512) * 512, 0);
    bytes
}

fn members(bytes: &[u8]) -> Result<HashMap<String, Member>, Cause> {
    archive::read(Cursor::new(bytes), bytes.len() as u64)
}

#[test]
fn files_of_an_archive_are_found() {
    let long = "d/".repeat(80) + "long";
    let pax = format!("{} path={long}x\n", long.len() + 11);
    assert_eq!(pax.len(), long.len() + 11);
    let parts = [
        entry("./index.json", b'0', b"{}"),
        entry("folder", b'5', b""),
        entry("old", 0, &[7; 600]),
        entry("link", b'2', b""),
        entry("x", b'L', long.as_bytes()),
        entry("short", b'0', b"abc"),
        entry("x", b'x', pax.as_bytes()),
        entry("short", b'0', b"abcd"),
        entry("old", b'0', b"new"),
        vec![0; 1024],
    ];
    let found = members(&parts.concat()).unwrap();
    let size = |name: &str| found.get(name).map(|member| member.size);
    assert_eq!(size("index.json"), Some(2));
    assert_eq!(size("old"), Some(3));
    assert_eq!(size(&long), Some(3));
    assert_eq!(size(&format!("{long}x")), Some(4));
    assert_eq!(found.len(), 4);
    assert_eq!(found["index.json"].offset, 512);
}

#[rstest]
#[case::cut(entry("a", b'0', &[1; 600])[..900].to_vec(), "Truncated")]
#[case::short(vec![1; 100], "Truncated")]
#[case::huge(header(b"a", b'0', b"77777777777"), "Truncated")]
#[case::base256(header(b"a", b'0', &[0xff; 12]), "without a size")]
#[case::letters(header(b"a", b'0', b"zzz"), "without a size")]
#[case::gzip([vec![0x1f, 0x8b], vec![0; 510]].concat(), "plain tar")]
#[case::text(vec![b'x'; 512], "does not begin a tar header")]
#[case::name(entry("a", b'L', &[b'x'; 5000]), "the maximum is 4096")]
fn broken_archives_are_errors(#[case] bytes: Vec<u8>, #[case] says: &str) {
    let error = members(&bytes).unwrap_err();
    assert!(format!("{error:?}").contains(says), "{error:?}");
}

proptest! {
    #[test]
    fn archives_never_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..2048), kind in any::<u8>()
    ) {
        let _ = members(&bytes);
        let head = header(b"x", kind, b"100");
        bytes.splice(0..0, head);
        let _ = members(&bytes);
    }

    #[test]
    fn sizes_never_lead_out_of_an_archive(size in proptest::collection::vec(any::<u8>(), 12)) {
        let mut bytes = header(b"x", b'0', &size);
        bytes.resize(2048, 0);
        if let Ok(found) = members(&bytes) {
            for member in found.values() {
                prop_assert!(member.offset + member.size <= 2048);
            }
        }
    }
}

fn client() -> Client {
    Client::new(Settings::for_user(Roots::none()), Routes::direct())
}

async fn open(source: &str) -> Result<Image, Error> {
    Image::open(&source.parse().unwrap(), &client(), Arc::default()).await
}

fn layout(folder: &Path) -> testkit::Layout {
    let mut layout = testkit::Layout::new(folder).unwrap();
    let big = vec![5_u8; 300_000];
    let amd64 = layout.image("amd64", &[b"one", &big], &json!({})).unwrap();
    let arm64 = layout.image("arm64", &[b"two"], &json!({})).unwrap();
    let index = layout.index(&[amd64.clone(), arm64]).unwrap();
    layout.name("all", &index).unwrap();
    layout.name("amd64", &amd64).unwrap();
    layout
}

/// Makes a tar file of a folder with the system's own tool.
fn tar(folder: &Path, file: &Path) {
    let status = std::process::Command::new("tar")
        .arg("-cf")
        .arg(file)
        .arg("-C")
        .arg(folder)
        .arg(".")
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn folders_and_archives_are_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout");
    layout(&path);
    let file = folder.path().join("image.tar");
    tar(&path, &file);
    for source in [
        format!("oci:{}", path.display()),
        format!("oci-archive:{}", file.display()),
    ] {
        let all = open(&format!("{source}:all")).await.unwrap();
        let content = all.resolve(Freshness::Now).await.unwrap();
        let platform::Document::Index(index) =
            platform::document::read(&content.bytes, content.content_type.as_deref()).unwrap()
        else {
            panic!("no index");
        };
        assert_eq!(index.manifests.len(), 2);
        let entry = &index.manifests[0];
        let content = all.manifest(&entry.digest).await.unwrap();
        let platform::Document::Manifest(manifest) =
            platform::document::read(&content.bytes, None).unwrap()
        else {
            panic!("no manifest");
        };
        let config = all.document(&manifest.config).await.unwrap();
        assert!(platform::document::read_config(&config.bytes).is_ok());

        let layer = manifest.layers[1].clone();
        let mut reader = all.reader(&layer, 0, tokio::runtime::Handle::current());
        let (bytes, rest) = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            reader.reopen(299_990);
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            (bytes, rest)
        })
        .await
        .unwrap();
        assert_eq!(bytes, vec![5_u8; 300_000]);
        assert_eq!(rest, [5_u8; 10]);

        // Several images without a name are picked: the index itself.
        let some = open(&source)
            .await
            .unwrap()
            .resolve(Freshness::Now)
            .await
            .unwrap();
        assert!(matches!(
            platform::document::read(&some.bytes, some.content_type.as_deref()),
            Ok(platform::Document::Index(_))
        ));
        let by_digest = open(&format!("{source}@{}", entry.digest)).await.unwrap();
        assert_eq!(
            by_digest.resolve(Freshness::Now).await.unwrap().digest,
            entry.digest
        );
        let none = open(&format!("{source}:other")).await.unwrap();
        let error = none.resolve(Freshness::Now).await.unwrap_err();
        assert_eq!(error.reason(), "NotFound");
        assert!(
            error.to_string().contains("there are all, amd64"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn wrong_content_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout");
    layout(&path);
    let image = open(&format!("oci:{}:amd64", path.display()))
        .await
        .unwrap();
    let content = image.resolve(Freshness::Now).await.unwrap();
    let platform::Document::Manifest(manifest) =
        platform::document::read(&content.bytes, None).unwrap()
    else {
        panic!("no manifest");
    };
    let blob = |digest: &Digest| path.join("blobs/sha256").join(digest.hash());
    let layer = &manifest.layers[1];
    let drain = async |layer: &Descriptor| -> Result<usize, Error> {
        let mut stream = image.blob(layer, 0)?;
        let mut count = 0;
        while let Some(piece) = futures::StreamExt::next(&mut stream).await {
            count += piece?.len();
        }
        Ok(count)
    };
    assert_eq!(drain(layer).await.unwrap(), 300_000);
    let mut bytes = vec![5_u8; 300_000];
    bytes[299_999] = 6;
    std::fs::write(blob(&layer.digest), &bytes).unwrap();
    assert_eq!(drain(layer).await.unwrap_err().reason(), "DigestMismatch");
    std::fs::write(blob(&layer.digest), &bytes[..10]).unwrap();
    assert_eq!(drain(layer).await.unwrap_err().reason(), "Truncated");
    bytes.push(0);
    std::fs::write(blob(&layer.digest), &bytes).unwrap();
    assert_eq!(drain(layer).await.unwrap_err().reason(), "TooLarge");
    std::fs::remove_file(blob(&layer.digest)).unwrap();
    assert_eq!(drain(layer).await.unwrap_err().reason(), "NotFound");
    std::fs::write(blob(&manifest.config.digest), b"{}").unwrap();
    let error = image.document(&manifest.config).await.unwrap_err();
    assert_eq!(error.reason(), "DigestMismatch");
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
}

#[rstest]
#[case("oci:/nowhere/at/all", "NotFound")]
#[case("oci:/dev", "NotFound")]
fn invalid_layout_is_an_error(#[case] source: &str, #[case] reason: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let error = runtime.block_on(async {
        open(source)
            .await
            .unwrap()
            .resolve(Freshness::Now)
            .await
            .unwrap_err()
    });
    assert_eq!(error.reason(), reason);
}

#[tokio::test]
async fn invalid_archive_is_an_error() {
    assert_eq!(
        open("oci-archive:/nowhere.tar").await.unwrap_err().reason(),
        "NotFound"
    );
    // Reading this would never end.
    assert_eq!(
        open("oci-archive:/dev/zero").await.unwrap_err().reason(),
        "FileError"
    );
}
