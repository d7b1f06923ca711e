use std::sync::atomic::AtomicBool;

use platform::{MediaType, Source};
use serde_json::Value;
use testkit::{FaultyServer, Layout, ScriptedResponse};

use super::*;
use crate::{Client, Keyring, Retry, Roots, Routes, Settings};

fn client(host: &str) -> Client {
    let mut settings = Settings::for_user(Roots::none());
    settings.retry = Retry {
        attempts: 1,
        resumes: 0,
        ..Retry::default()
    };
    Client::new(settings, Routes::direct().with_plain(host))
}

async fn image(host: &str) -> Image {
    let source: Source = format!("docker://{host}/a/b:c").parse().unwrap();
    let keyring = Arc::new(Keyring::anonymous());
    Image::open(&source, &client(host), keyring).await.unwrap()
}

fn descriptor(bytes: &[u8]) -> Descriptor {
    Descriptor {
        media_type: MediaType::default(),
        digest: Digest::sha256(bytes),
        size: bytes.len() as u64,
        platform: None,
        artifact_type: String::new(),
        annotations: std::collections::BTreeMap::new(),
    }
}

fn noise(length: usize) -> Vec<u8> {
    let repeated = (0..=250_u8).map(|n| n.wrapping_mul(7)).cycle();
    repeated.take(length).collect()
}

#[tokio::test]
async fn interrupted_download_is_resumed() {
    let bytes = noise(300_000);
    let whole = bytes.clone();
    let server = FaultyServer::start(move |asked| match asked.offset() {
        0 => ScriptedResponse::cut(200, whole[..100_000].to_vec(), whole.len()),
        offset => ScriptedResponse::answer(206, whole[offset..].to_vec()).with(
            "Content-Range",
            &format!("bytes {offset}-{}/{}", whole.len() - 1, whole.len()),
        ),
    })
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let (image, wanted) = (image(&server.host()).await, descriptor(&bytes));
    assert_eq!(store.missing(&wanted, &image), 300_000);
    let error = store.fetch(&wanted, &image).await.unwrap_err();
    assert!(matches!(error, StoreError::Registry(_)), "{error}");
    assert_eq!(store.size(&wanted.digest), None);
    assert_eq!(store.missing(&wanted, &image), 200_000);
    // As if in another process.
    let store = BlobStore::open(folder.path()).unwrap();
    store.fetch(&wanted, &image).await.unwrap();
    assert_eq!(store.missing(&wanted, &image), 0);
    assert_eq!(fs::read(store.path(&wanted.digest)).unwrap(), bytes);
    assert_eq!(store.unfinished().unwrap(), []);
    assert_eq!(store.complete().unwrap().len(), 1);
}

#[tokio::test]
async fn partial_download_is_verified() {
    let bytes = noise(300_000);
    let whole = bytes.clone();
    let server = FaultyServer::start(move |asked| match asked.offset() {
        0 => ScriptedResponse::answer(200, whole.clone()),
        offset => ScriptedResponse::answer(206, whole[offset..].to_vec()).with(
            "Content-Range",
            &format!("bytes {offset}-{}/{}", whole.len() - 1, whole.len()),
        ),
    })
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let wanted = descriptor(&bytes);
    let image = image(&server.host()).await;
    fs::write(store.part(&wanted, &image), noise(5000).repeat(3)).unwrap();
    store.fetch(&wanted, &image).await.unwrap();
    assert_eq!(fs::read(store.path(&wanted.digest)).unwrap(), bytes);
}

#[tokio::test]
async fn wrong_content_is_not_stored() {
    let (bytes, other) = (noise(1000), noise(999).into_iter().chain([1]));
    let other: Vec<u8> = other.collect();
    let server = FaultyServer::start(move |_| ScriptedResponse::answer(200, other.clone()))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let wanted = descriptor(&bytes);
    let image = image(&server.host()).await;
    let error = store.fetch(&wanted, &image).await.unwrap_err();
    assert!(error.to_string().contains("the content is"), "{error}");
    assert_eq!(store.complete().unwrap(), []);
    assert_eq!(store.unfinished().unwrap(), []);
    let error = store.put(&wanted.digest, b"else").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(store.size(&wanted.digest), None);
}

/// A manifest may state any size for a blob that another image brought.
#[tokio::test]
async fn wrong_size_never_removes_a_blob_of_another_image() {
    let bytes = noise(300_000);
    let whole = bytes.clone();
    let server = FaultyServer::start(move |_| ScriptedResponse::answer(200, whole.clone()))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let (image, right) = (image(&server.host()).await, descriptor(&bytes));
    store.fetch(&right, &image).await.unwrap();
    for size in [0, 1, 299_999, 300_001, u64::MAX] {
        let wrong = Descriptor {
            size,
            ..right.clone()
        };
        let error = store.fetch(&wrong, &image).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Size { found: 300_000, expected, .. } if *expected == size),
            "{error}"
        );
        assert_eq!(fs::read(store.path(&right.digest)).unwrap(), bytes);
    }
    // Only one request was sent, and no partial download is left.
    assert_eq!(server.asked().len(), 1);
    assert_eq!(store.unfinished().unwrap(), []);
    // A damaged blob is fetched again.
    fs::write(store.path(&right.digest), b"short").unwrap();
    store.fetch(&right, &image).await.unwrap();
    assert_eq!(fs::read(store.path(&right.digest)).unwrap(), bytes);
}

#[tokio::test]
async fn failed_download_never_discards_that_of_another_image() {
    let bytes = noise(300_000);
    let whole = bytes.clone();
    let cut = FaultyServer::start(move |_| {
        ScriptedResponse::cut(200, whole[..100_000].to_vec(), whole.len())
    })
    .await
    .unwrap();
    let liar = FaultyServer::start(|_| ScriptedResponse::answer(200, noise(400_000)))
        .await
        .unwrap();
    let unknown = FaultyServer::start(|_| ScriptedResponse::answer(404, ""))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let right = descriptor(&bytes);
    let image_at = image(&cut.host()).await;
    store.fetch(&right, &image_at).await.unwrap_err();
    assert_eq!(store.missing(&right, &image_at), 200_000);
    // Another registry sends too much or does not have the blob; the same registry is used with wrong
    // sizes.
    for host in [liar.host(), unknown.host()] {
        store.fetch(&right, &image(&host).await).await.unwrap_err();
    }
    for size in [50_000, 100_001, 1 << 40] {
        let wrong = Descriptor {
            size,
            ..right.clone()
        };
        store.fetch(&wrong, &image_at).await.unwrap_err();
    }
    assert_eq!(store.missing(&right, &image_at), 200_000);
    // Garbage collection removes all of it.
    store.remove(&right.digest).unwrap();
    assert_eq!(store.unfinished().unwrap(), []);
}

#[tokio::test]
async fn registry_that_stalls_does_not_delay_another_one() {
    let bytes = noise(300_000);
    let (slow, fast) = (bytes.clone(), bytes.clone());
    let stalling = FaultyServer::start(move |_| {
        ScriptedResponse::trickling(200, slow.clone(), 1000, std::time::Duration::from_mins(10))
    })
    .await
    .unwrap();
    let server = FaultyServer::start(move |_| ScriptedResponse::answer(200, fast.clone()))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let wanted = descriptor(&bytes);
    let (stalled, served) = (image(&stalling.host()).await, image(&server.host()).await);
    let waiting = tokio::spawn({
        let (store, wanted, stalled) = (store.clone(), wanted.clone(), stalled.clone());
        async move { store.fetch(&wanted, &stalled).await }
    });
    let arrived = || async { Ok((store.missing(&wanted, &stalled) == 299_000).then_some(())) };
    testkit::wait_until("it stalls", std::time::Duration::from_secs(20), arrived)
        .await
        .unwrap();
    store.fetch(&wanted, &served).await.unwrap();
    assert_eq!(fs::read(store.path(&wanted.digest)).unwrap(), bytes);
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test]
async fn concurrent_fetches_download_a_blob_once() {
    let bytes = noise(200_000);
    let whole = bytes.clone();
    let server = FaultyServer::start(move |_| ScriptedResponse::answer(200, whole.clone()))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let (image, wanted) = (image(&server.host()).await, descriptor(&bytes));
    let all = (0..20).map(|_| store.fetch(&wanted, &image));
    for done in futures::future::join_all(all).await {
        done.unwrap();
    }
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn concurrent_puts_of_a_blob_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    for round in 0..20_u8 {
        let digest = Digest::sha256(&[round]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| store.put(&digest, &[round]).unwrap());
            }
        });
        assert_eq!(store.read(&digest).unwrap(), [round]);
    }
    fs::write(folder.path().join("ingest/.7"), "half").unwrap();
    BlobStore::open(folder.path()).unwrap();
    assert_eq!(
        fs::read_dir(folder.path().join("ingest")).unwrap().count(),
        0
    );
}

#[test]
fn damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path()).unwrap();
    let digest = Digest::sha256(b"some");
    store.put(&digest, b"some").unwrap();
    let stop = AtomicBool::new(false);
    assert!(store.verify(&digest, &stop).unwrap());
    assert_eq!(store.read(&digest).unwrap(), b"some");
    fs::write(store.path(&digest), b"same").unwrap();
    assert!(store.read(&digest).is_err());
    assert!(!store.verify(&digest, &stop).unwrap());
    assert_eq!(store.size(&digest), None);
}

#[tokio::test]
async fn store_is_a_valid_oci_layout() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(&folder.path().join("layout")).unwrap();
    let made = layout.image("arm64", &[b""], &Value::Null).unwrap();
    let digest: Digest = made["digest"].as_str().unwrap().parse().unwrap();
    let from = folder.path().join("layout").join(digest.blob_path());
    let place = folder.path().join("store");
    let store = BlobStore::open(&place).unwrap();
    store.put(&digest, &fs::read(from).unwrap()).unwrap();
    let source = format!("oci:{}@{digest}", place.display());
    let source: Source = source.parse().unwrap();
    fs::write(
        place.join("index.json"),
        r#"{"schemaVersion":2,"manifests":[]}"#,
    )
    .unwrap();
    let (client, keyring) = (client("x"), Arc::new(Keyring::anonymous()));
    let image = Image::open(&source, &client, keyring).await.unwrap();
    let found = image.manifest(&digest).await.unwrap();
    assert_eq!(found.digest, digest);
}
