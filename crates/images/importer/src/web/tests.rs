//! Imports of files from web servers.

use std::fs;
use std::future::pending;
use std::path::Path;
use std::time::Duration;

use oci::{Roots, Routes, Settings};
use parking_lot::Mutex;
use platform::Source;
use tempfile::TempDir;
use testkit::{FaultyServer, ScriptedResponse, WebFile as Served};

use super::*;
use crate::target::beside;
use crate::{Imported, Reason, Request, Unfinished, Watch, import};

fn data() -> Vec<u8> {
    (0..2_u32 << 20)
        .map(|at| (at / 251).to_le_bytes()[0])
        .collect()
}

fn client() -> Client {
    Client::new(Settings::for_user(Roots::none()), Routes::direct())
}

fn request(server: &FaultyServer, folder: &Path) -> anyhow::Result<Request> {
    let source = format!("http://{}/disk.img", server.host()).parse()?;
    let target = folder.join("disk.raw");
    Ok(Request::new(source, client(), "arm64", target))
}

async fn serve() -> anyhow::Result<(FaultyServer, TempDir)> {
    let file = Served::new(data(), "one");
    let server = FaultyServer::start(move |asked| file.answer(asked)).await?;
    Ok((server, tempfile::tempdir()?))
}

/// Records which file was found.
struct FoundRecorder(std::sync::mpsc::Sender<Found>);

impl Watch for FoundRecorder {
    fn found(&mut self, found: &Found) {
        let _ = self.0.send(found.clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_becomes_a_disk() -> anyhow::Result<()> {
    let (server, folder) = serve().await?;
    let request = request(&server, folder.path())?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let Imported {
        digest,
        platform,
        resumed,
        target,
        ..
    } = import(request, FoundRecorder(sender), pending()).await?;
    assert_eq!(fs::read(&target)?, data());
    assert_eq!(
        digest,
        Digest::sha256(&data()),
        "the digest of the file as it was sent"
    );
    assert_eq!(platform.architecture, "arm64");
    assert!(!resumed);
    let found = receiver.recv()?;
    assert_eq!(found.version.etag.as_deref(), Some("\"one\""));
    // A second request finds the file unchanged.
    let image = found.image()?;
    assert!(image.digest.starts_with("sha256:"), "{image:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn checksum_mismatch_is_rejected() -> anyhow::Result<()> {
    let (server, folder) = serve().await?;
    let mut request = request(&server, folder.path())?;
    let sha512 = Digest::of(platform::Algorithm::Sha512, &data());
    for checksum in [Digest::sha256(&data()), sha512] {
        request.web.checksum = Some(checksum);
        request.overwrite = true;
        let imported = import(request.clone(), (), pending()).await?;
        assert_eq!(fs::read(&imported.target)?, data());
        fs::remove_file(&imported.target)?;
    }
    request.web.checksum = Some(Digest::sha256(b"something else"));
    let error = import(request.clone(), (), pending()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::DigestMismatch, "{error}");
    assert_eq!(fs::read_dir(folder.path())?.count(), 0, "nothing is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_web_files_have_reasons() -> anyhow::Result<()> {
    for (answer, limit, reason) in [
        (
            ScriptedResponse::answer(404, ""),
            None,
            Reason::ImageNotFound,
        ),
        (
            ScriptedResponse::answer(403, ""),
            None,
            Reason::PullUnauthorized,
        ),
        (
            ScriptedResponse::answer(200, data()),
            Some(1 << 20),
            Reason::TooSmall,
        ),
        (
            ScriptedResponse::answer(200, "KDMV"),
            None,
            Reason::InvalidDisk,
        ),
    ] {
        let server = FaultyServer::start(move |_| answer.clone()).await?;
        let folder = tempfile::tempdir()?;
        let mut request = request(&server, folder.path())?;
        request.limit = limit;
        let error = import(request, (), pending()).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert_eq!(fs::read_dir(folder.path())?.count(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_twice_costs_an_empty_answer() -> anyhow::Result<()> {
    let (server, _folder) = serve().await?;
    let client = client();
    let Source::Web(address) = format!("http://{}/x", server.host()).parse()? else {
        anyhow::bail!("not an address");
    };
    let options = WebOptions::default();
    let ask = async || look(&client, &address, &Keyring::anonymous(), &options).await;
    let first = ask().await?;
    assert_eq!(ask().await?.image()?, first.image()?);
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].header("if-none-match"), Some("\"one\""));
    // A configured checksum identifies the version.
    let checksum = Digest::sha256(&data());
    let options = WebOptions {
        checksum: Some(checksum.clone()),
        ..WebOptions::default()
    };
    let found = look(&client, &address, &Keyring::anonymous(), &options).await?;
    assert_eq!(found.image()?.digest, checksum.to_string());
    Ok(())
}

/// Which validators the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validators {
    Strong,
    Weak,
}

#[rstest::rstest]
#[case::the_same(Validators::Strong, false)]
#[case::another_version(Validators::Strong, true)]
#[case::weak_validators(Validators::Weak, false)]
#[tokio::test(flavor = "multi_thread")]
async fn half_a_file_is_gone_on_with_if_it_is_still_the_same(
    #[case] validators: Validators,
    #[case] changes: bool,
) -> anyhow::Result<()> {
    let mut file = Served::new(data(), "one");
    if validators == Validators::Weak {
        file.etag = Some("W/\"one\"".to_owned());
        file.modified = None;
    }
    let served = Arc::new(Mutex::new((file, true)));
    let script = Arc::clone(&served);
    let server = FaultyServer::start(move |asked| {
        let (file, is_slow) = &*script.lock();
        if *is_slow && asked.method == "GET" {
            let pause = Duration::from_millis(50);
            return file.stamped(ScriptedResponse::slow(file.bytes.clone(), 64 << 10, pause));
        }
        file.answer(asked)
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let mut request = request(&server, folder.path())?;
    request.unfinished = Unfinished::Keep;
    request.options.checkpoint_every = 256 << 10;
    let (part, state) = beside(&request.target);
    let saved = state.clone();
    let stop = async move {
        let is_there = async || match validators {
            Validators::Strong => saved.exists(),
            // No checkpoint is saved without a strong validator; wait for the data instead.
            Validators::Weak => fs::metadata(&part).is_ok_and(|it| it.len() > 256 << 10),
        };
        while !is_there().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let error = import(request.clone(), (), stop).await.unwrap_err();
    assert!(matches!(error, Error::Cancelled { .. }), "{error}");
    let mut expected = data();
    {
        let mut served = served.lock();
        served.1 = false;
        if changes {
            expected.reverse();
            served.0 = Served::new(expected.clone(), "two");
        }
    }
    let before = server.asked().len();
    let imported = import(request.clone(), (), pending()).await?;
    let resumes = validators == Validators::Strong && !changes;
    assert_eq!(imported.resumed, resumes);
    assert_eq!(fs::read(&request.target)?, expected);
    assert_eq!(imported.digest, Digest::sha256(&expected));
    let asked = server.asked();
    let begun_at: Vec<usize> = asked[before..]
        .iter()
        .filter(|it| it.method == "GET")
        .map(testkit::Asked::offset)
        .collect();
    assert_eq!(begun_at.len(), 1, "{begun_at:?}");
    assert_eq!(begun_at[0] > 0, resumes, "{begun_at:?}");
    assert!(!state.exists());
    Ok(())
}
