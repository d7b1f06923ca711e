//! Imports: failure reasons, resuming, rejection, and locking.

use std::fs;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oci::{Cause, Client, Operation, Roots, Routes, Settings, resolve};
use platform::{NoMatch, Platform, Unfit};
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{FaultyServer, Layout, ScriptedResponse};

use crate::target::{Target, beside};
use crate::{Error, Reason, Request, Unfinished, import};

fn registry(cause: Cause) -> oci::Error {
    oci::Error {
        operation: Operation::Blob,
        subject: "x:1".to_owned(),
        place: "here".to_owned(),
        cause,
        earlier: Vec::new(),
    }
}

fn disk(source: disk::Error) -> Error {
    Error::Disk {
        image: "x:1".to_owned(),
        source: source.into(),
    }
}

fn read(source: io::Error) -> Error {
    disk(disk::Error::Read {
        layer: "sha256:0".to_owned(),
        offset: 0,
        source,
    })
}

fn no_match(source: NoMatch) -> Error {
    Error::from(resolve::Error::NoMatch {
        image: "x:1".to_owned(),
        source: source.into(),
    })
}

fn wanted() -> Platform {
    Platform::new("linux", "s390x")
}

fn unauthorized() -> Cause {
    Cause::Unauthorized {
        with: "without credentials".to_owned(),
        said: String::new(),
    }
}

#[rstest]
#[case::denied(Error::from(registry(unauthorized())), Reason::PullUnauthorized, false)]
// An error of the registry in the middle of a layer keeps its cause.
#[case::denied_late(read(registry(unauthorized()).into()), Reason::PullUnauthorized, false)]
#[case::limited(
    read(registry(Cause::RateLimited { retry_after: None }).into()),
    Reason::RateLimited,
    true
)]
#[case::gone(
    Error::from(registry(Cause::NotFound { said: String::new() })),
    Reason::ImageNotFound,
    false
)]
#[case::down(
    Error::from(registry(Cause::Unreachable("refused".to_owned()))),
    Reason::RegistryUnavailable,
    true
)]
#[case::cut(read(io::ErrorKind::UnexpectedEof.into()), Reason::RegistryUnavailable, true)]
#[case::absent(
    no_match(NoMatch::NotFound { wanted: wanted(), nearest: Unfit::Architecture, available: Vec::new() }),
    Reason::ArchitectureNotFound,
    false
)]
#[case::alone(
    no_match(NoMatch::NotAnIndex { wanted: wanted(), found: wanted(), why: Unfit::Architecture }),
    Reason::NotAnIndex,
    false
)]
#[case::small(disk(disk::Error::TooSmall { need: 2, have: 1 }), Reason::TooSmall, false)]
#[case::full(
    disk(disk::Error::Target {
        operation: "writing",
        offset: 0,
        length: 1,
        source: io::ErrorKind::StorageFull.into(),
    }),
    Reason::TooSmall,
    false
)]
#[case::nothing(disk(disk::OverlayError::NoDisk.into()), Reason::NoDisk, false)]
#[case::other_format(
    disk(disk::Error::UnsupportedFormat { format: "vmdk", path: "x".to_owned() }),
    Reason::InvalidDisk,
    false
)]
fn errors_have_the_reasons_of_the_pipeline(
    #[case] error: Error,
    #[case] reason: Reason,
    #[case] transient: bool,
) {
    assert_eq!(error.reason(), reason);
    assert_eq!(error.is_transient(), transient);
}

/// An archive with one file in `/disk`.
fn archive(data: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 512];
    block[..13].copy_from_slice(b"disk/disk.img");
    block[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
    block[148..156].fill(b' ');
    block[156] = b'0';
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = block.to_vec();
    all.extend_from_slice(data);
    all.resize(all.len().next_multiple_of(512) + 1024, 0);
    all
}

fn client(host: &str) -> Client {
    let routes = Routes::direct().with_plain(host);
    Client::new(Settings::for_user(Roots::none()), routes)
}

/// A layout with one image of one layer, for amd64, under the name `x`.
fn layout(folder: &Path, data: &[u8]) -> anyhow::Result<Layout> {
    let mut layout = Layout::new(&folder.join("layout"))?;
    let image = layout.image("amd64", &[&archive(data)], &json!({}))?;
    let index = layout.index(&[image])?;
    layout.name("x", &index)?;
    Ok(layout)
}

fn request(folder: &TempDir, data: &[u8]) -> anyhow::Result<Request> {
    let source = layout(folder.path(), data)?.source("x").parse()?;
    let target = folder.path().join("disk.raw");
    Ok(Request::new(source, client("nowhere"), "amd64", target))
}

/// A boot record that only s390x boots.
fn mainframe() -> Vec<u8> {
    let mut disk = vec![0; 1 << 20];
    disk[..4].copy_from_slice(b"\xc9\xd7\xd3\xf1");
    disk
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_another_architecture_is_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut request = request(&folder, &mainframe())?;
    let sniffs = {
        let mut sink = disk::MemorySink::new(None);
        disk::Sink::write_at(&mut sink, 0, &mainframe())?;
        disk::sniff(&mut sink, 1 << 20)?.boots_on("amd64")
    };
    assert_eq!(sniffs, Some(false), "the fixture is for s390x alone");
    let error = import(request.clone(), (), pending()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::ArchitectureMismatch, "{error}");
    let (part, state) = beside(&request.target);
    for path in [&request.target, &part, &state] {
        assert!(!path.exists(), "{}", path.display());
    }
    request.sniff = false;
    import(request.clone(), (), pending()).await?;
    assert_eq!(fs::read(&request.target)?, mainframe());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_are_exclusive_and_do_not_overwrite() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut request = request(&folder, &[7; 4096])?;
    let held = Target::open(&request.target, false, true)?;
    let error = import(request.clone(), (), pending()).await.unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(error.is_transient());
    // The file of the other import is still there.
    assert!(beside(&request.target).0.exists());

    // Another process creates the target while the disk is being written.
    fs::write(&request.target, "precious")?;
    let error = held.finish().unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(fs::read(&request.target)?, b"precious");
    assert!(!beside(&request.target).0.exists());

    request.target = folder.path().to_owned();
    let error = import(request, (), pending()).await.unwrap_err();
    assert!(error.to_string().contains("a folder"), "{error}");
    Ok(())
}

/// Serves a layout, with a pause between the pieces of its layer if `pause` is set.
async fn serve(folder: PathBuf, pause: Option<Duration>) -> anyhow::Result<FaultyServer> {
    let index: Value = serde_json::from_slice(&fs::read(folder.join("index.json"))?)?;
    let root = index["manifests"][0]["digest"].as_str().unwrap_or_default();
    let root = root.to_owned();
    FaultyServer::start(move |asked| {
        let last = asked.path.rsplit('/').next().unwrap_or_default();
        let name = last.strip_prefix("sha256:").unwrap_or_else(|| &root[7..]);
        let Ok(bytes) = fs::read(folder.join("blobs/sha256").join(name)) else {
            return ScriptedResponse::answer(200, "{}");
        };
        if asked.path.contains("/manifests/") {
            let kind: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let kind = kind["mediaType"].as_str().unwrap_or_default();
            return ScriptedResponse::answer(200, bytes).with("Content-Type", kind);
        }
        let (offset, total) = (asked.offset(), bytes.len());
        if offset > 0 {
            let range = format!("bytes {offset}-{}/{total}", total - 1);
            return ScriptedResponse::answer(206, bytes[offset..].to_vec())
                .with("Content-Range", &range);
        }
        match pause {
            Some(pause) if total > 1 << 20 => ScriptedResponse::slow(bytes, 64 << 10, pause),
            _ => ScriptedResponse::answer(200, bytes),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_unfinished_file_is_resumed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let data: Vec<u8> = (0..4_u32 << 20)
        .map(|at| (at / 251).to_le_bytes()[0] | 1)
        .collect();
    layout(folder.path(), &data)?;
    let slow = serve(
        folder.path().join("layout"),
        Some(Duration::from_millis(50)),
    )
    .await?;
    let target = folder.path().join("disk.raw");
    let source = format!("docker://{}/x:1", slow.host()).parse()?;
    let mut request = Request::new(source, client(&slow.host()), "amd64", target.clone());
    request.unfinished = Unfinished::Keep;
    request.options.checkpoint_every = 256 << 10;
    let (part, state) = beside(&target);
    let saved = state.clone();
    let stop = async move {
        while !saved.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let error = import(request.clone(), (), stop).await.unwrap_err();
    assert!(matches!(error, Error::Cancelled { .. }), "{error}");
    assert!(part.exists() && state.exists() && !target.exists());

    let imported = import(request.clone(), (), pending()).await?;
    assert!(imported.resumed);
    assert!(imported.disk.fetched < data.len() as u64, "{imported:?}");
    assert!(slow.asked().iter().any(|asked| asked.offset() > 0));
    assert_eq!(fs::read(&target)?, data);
    assert!(!part.exists() && !state.exists());

    Ok(())
}

#[test]
fn planted_unfinished_file_is_replaced_and_not_written_through() {
    let folder = TempDir::new().unwrap();
    let (target, victim) = (folder.path().join("disk.img"), folder.path().join("victim"));
    let (part, _) = beside(&target);
    for plant in [
        |victim: &Path, part: &Path| std::os::unix::fs::symlink(victim, part),
        |victim: &Path, part: &Path| fs::hard_link(victim, part),
    ] {
        fs::write(&victim, "mine").unwrap();
        plant(&victim, &part).unwrap();
        let opened = Target::open(&target, false, true).unwrap();
        io::Write::write_all(&mut opened.file().unwrap(), b"disk").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        opened.finish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "disk");
        fs::remove_file(&target).unwrap();
    }
}
