//! Damaged files: one record that cannot be decoded costs one object, never a kind, and never the
//! server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::fs;
use std::ops::Bound;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apiserver::auth::{MASTERS, SigningKey, StaticTokens, UserInfo};
use apiserver::store::{Expect, Options, Store, StoreError, Write};
use apiserver::{ApiServer, Options as ServerOptions};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use redb::ReadableDatabase as _;
use rstest::rstest;
use serde_json::{Value, json};

const LOG: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("log");

async fn start(path: &Path) -> ApiServer {
    let store = Store::open(path, Options::default()).unwrap();
    ApiServer::start(ServerOptions {
        store,
        token_key: SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap(),
        issuer: "https://kubernetes.default.svc".to_owned(),
        tokens: StaticTokens::default(),
        host: "127.0.0.1".to_owned(),
        port: 6443,
        service_accounts: false,
    })
    .await
    .unwrap()
    .as_user(UserInfo::known("admin", &[MASTERS]))
}

async fn stop(server: ApiServer) {
    server.stop();
    server.state().store.close().await;
}

struct Answer {
    code: StatusCode,
    warnings: Vec<String>,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The names of the items of a list.
    fn names(&self) -> Vec<String> {
        let items = self.json()["items"].clone();
        let items = items
            .as_array()
            .unwrap_or_else(|| panic!("{:?}", self.body))
            .clone();
        items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

async fn send_as(
    server: &ApiServer,
    method: Method,
    path: &str,
    accept: &str,
    body: Option<Value>,
) -> Answer {
    let bytes = body.map_or_else(Bytes::new, |body| body.to_string().into());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .header("content-type", "application/json")
        .body(Full::new(bytes))
        .unwrap();
    let response = server.handle(request).await;
    let code = response.status();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings
        .map(|text| text.to_str().unwrap().to_owned())
        .collect();
    Answer {
        code,
        warnings,
        body: response.into_body().collect().await.unwrap().to_bytes(),
    }
}

async fn send(server: &ApiServer, method: Method, path: &str, body: Option<Value>) -> Answer {
    send_as(server, method, path, "application/json", body).await
}

async fn get(server: &ApiServer, path: &str) -> Answer {
    send(server, Method::GET, path, None).await
}

async fn create(server: &ApiServer, path: &str, object: Value) {
    let made = send(server, Method::POST, path, Some(object)).await;
    assert_eq!(made.code, StatusCode::CREATED, "{:?}", made.body);
}

/// Changes the bytes of the newest record of a key, as a disk might.
fn damage(path: &Path, key: &str, change: impl Fn(&mut Vec<u8>, usize)) {
    let db = redb::Database::open(path).unwrap();
    let read = db.begin_read().unwrap().open_table(LOG).unwrap();
    let (revision, mut bytes) = read
        .range(0..)
        .unwrap()
        .map(|item| item.unwrap())
        .map(|(revision, bytes)| (revision.value(), bytes.value().to_vec()))
        .filter(|(_, bytes)| {
            bytes
                .windows(key.len())
                .any(|window| window == key.as_bytes())
        })
        .last()
        .unwrap_or_else(|| panic!("no record of {key}"));
    drop(read);
    let at = bytes
        .windows(key.len())
        .position(|window| window == key.as_bytes())
        .unwrap();
    change(&mut bytes, at + key.len());
    let transaction = db.begin_write().unwrap();
    transaction
        .open_table(LOG)
        .unwrap()
        .insert(revision, bytes.as_slice())
        .unwrap();
    transaction.commit().unwrap();
}

#[expect(
    clippy::ptr_arg,
    reason = "others of its kind shorten what they are given"
)]
fn flip(bytes: &mut Vec<u8>, value: usize) {
    bytes[value + 30] ^= 0x40;
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "data": {"key": "value"}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const KEY: &str = "/registry/configmaps/default/b";

/// A folder with a store of three config maps.
async fn three() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let server = start(&path).await;
    for name in ["a", "b", "c"] {
        create(&server, MAPS, config_map(name)).await;
    }
    stop(server).await;
    (folder, path)
}

type Damage = fn(&mut Vec<u8>, usize);

#[rstest]
#[case::flipped(flip)]
#[case::truncated(|bytes: &mut Vec<u8>, value: usize| bytes.truncate(value + 40))]
#[case::emptied(|bytes: &mut Vec<u8>, value: usize| bytes.truncate(value))]
#[case::number(|bytes: &mut Vec<u8>, value: usize| bytes.splice(value.., *b"42").for_each(drop))]
#[case::list(|bytes: &mut Vec<u8>, value: usize| bytes.splice(value.., *b"[]").for_each(drop))]
#[case::invalid_utf8(|bytes: &mut Vec<u8>, value: usize| bytes[value + 3] = 0xff)]
#[case::zeroed(|bytes: &mut Vec<u8>, value: usize| bytes[value..].fill(0))]
#[case::grown(|bytes: &mut Vec<u8>, _: usize| bytes.extend_from_slice(b"}"))]
#[case::kind_of_record(|bytes: &mut Vec<u8>, _: usize| bytes[0] = 77)]
#[case::length_of_key(|bytes: &mut Vec<u8>, _: usize| bytes[9] = 0xff)]
#[case::deletion_instead(|bytes: &mut Vec<u8>, _: usize| bytes[0] ^= 1)]
#[tokio::test]
async fn damaged_record_costs_one_object_and_can_be_deleted(#[case] change: Damage) {
    let (_folder, path) = three().await;
    damage(&path, KEY, change);
    let server = start(&path).await;

    for accept in [
        "application/json",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ] {
        let listed = send_as(&server, Method::GET, MAPS, accept, None).await;
        assert_eq!(listed.code, StatusCode::OK, "{:?}", listed.body);
        assert_eq!(listed.names(), ["a", "c"]);
        assert!(
            listed.warnings.iter().any(|text| text.contains(KEY)),
            "{:?}",
            listed.warnings
        );
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = send_as(&server, Method::GET, MAPS, table, None)
        .await
        .json();
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    let selected = get(&server, &format!("{MAPS}?labelSelector=app%3Dweb")).await;
    assert_eq!(selected.names(), ["a", "c"]);
    // Page by page, too.
    let first = get(&server, &format!("{MAPS}?limit=2")).await;
    assert_eq!(first.names(), ["a", "c"]);

    let one = format!("{MAPS}/b");
    let got = get(&server, &one).await;
    assert_eq!(got.code, StatusCode::INTERNAL_SERVER_ERROR);
    let status = got.json();
    assert_eq!(status["reason"], "StorageReadError");
    assert!(
        status["message"].as_str().unwrap().contains(KEY),
        "{status}"
    );
    let put = send(&server, Method::PUT, &one, Some(config_map("b"))).await;
    assert_eq!(put.code, StatusCode::INTERNAL_SERVER_ERROR);
    let metrics = get(&server, "/metrics").await.body;
    let counted = "medley_apiserver_damaged_objects{group=\"\",resource=\"configmaps\"} 1\n";
    assert!(
        String::from_utf8_lossy(&metrics).contains(counted),
        "{metrics:?}"
    );

    // A precondition that cannot be checked fails.
    let guarded =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"}});
    let refused = send(&server, Method::DELETE, &one, Some(guarded)).await;
    assert_eq!(refused.code, StatusCode::CONFLICT);
    let deleted = send(&server, Method::DELETE, &one, None).await;
    assert_eq!(deleted.code, StatusCode::OK, "{:?}", deleted.body);
    assert_eq!(get(&server, &one).await.code, StatusCode::NOT_FOUND);
    create(&server, MAPS, config_map("b")).await;
    let store = server.state().store.clone();
    store.compact(store.revision()).await.unwrap();
    stop(server).await;
    drop(store);

    let server = start(&path).await;
    assert_eq!(get(&server, MAPS).await.names(), ["a", "b", "c"]);
    assert!(server.state().store.damaged().is_empty());
    stop(server).await;
}

#[tokio::test]
async fn watch_continues_past_a_damaged_record() {
    let (_folder, path) = three().await;
    damage(&path, KEY, flip);
    let server = start(&path).await;
    let watch = format!("{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=2");
    let selected = format!("{watch}&labelSelector=app%3Dweb");
    let change = async {
        send(&server, Method::DELETE, &format!("{MAPS}/b"), None).await;
        create(&server, MAPS, config_map("d")).await;
    };
    let (all, some, ()) = tokio::join!(get(&server, &watch), get(&server, &selected), change);
    for seen in [all, some] {
        let events: Vec<(String, String)> = String::from_utf8(seen.body.to_vec())
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|event| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (
                    text(&event["type"]),
                    text(&event["object"]["metadata"]["name"]),
                )
            })
            .collect();
        let events: Vec<_> = events
            .iter()
            .map(|(kind, name)| (kind.as_str(), name.as_str()))
            .collect();
        assert_eq!(
            events,
            [
                ("ADDED", "a"),
                ("ADDED", "c"),
                ("DELETED", "b"),
                ("ADDED", "d")
            ]
        );
    }
    stop(server).await;
}

#[tokio::test]
async fn emptied_collection_has_no_damaged_record_left() {
    let (_folder, path) = three().await;
    damage(&path, KEY, flip);
    let server = start(&path).await;
    assert_eq!(
        send(&server, Method::DELETE, MAPS, None).await.code,
        StatusCode::OK
    );
    assert_eq!(
        server.state().store.count("/registry/configmaps/default/"),
        0
    );
    stop(server).await;
}

/// Kinds the server itself reads: one damaged object stops neither it nor the others.
#[tokio::test]
async fn server_starts_with_damaged_objects_of_every_kind_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let server = start(&path).await;
    let definition = |plural: &str, kind: &str| {
        json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&server, definitions, definition("widgets", "Widget")).await;
    create(&server, definitions, definition("gadgets", "Gadget")).await;
    let service =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    create(
        &server,
        "/api/v1/namespaces/default/services",
        service("one"),
    )
    .await;
    stop(server).await;
    for key in [
        "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com",
        "/registry/services/specs/default/one",
        "/registry/services/specs/default/kubernetes",
        "/registry/namespaces/kube-public",
        "/registry/clusterroles/cluster-admin",
        "/registry/clusterrolebindings/system:basic-user",
        "/registry/priorityclasses/system-node-critical",
    ] {
        damage(&path, key, flip);
    }
    let server = start(&path).await;
    // Its own objects are restored, the others are left to their owners.
    for own in [
        "/api/v1/namespaces/kube-public",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/api/v1/namespaces/default/services/kubernetes",
    ] {
        assert_eq!(get(&server, own).await.code, StatusCode::OK, "{own}");
    }
    assert_eq!(server.state().store.damaged().len(), 2);
    create(
        &server,
        "/api/v1/namespaces/default/services",
        service("two"),
    )
    .await;
    let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
    assert_eq!(get(&server, gadgets).await.code, StatusCode::OK);
    assert_eq!(
        get(&server, definitions).await.names(),
        ["gadgets.example.com"]
    );
    stop(server).await;
}

#[tokio::test]
async fn damaged_webhook_configuration_blocks_writes_until_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let server = start(&path).await;
    let all = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    create(
        &server,
        all,
        json!({"metadata": {"name": "guard"}, "webhooks": []}),
    )
    .await;
    stop(server).await;
    damage(
        &path,
        "/registry/validatingwebhookconfigurations/guard",
        flip,
    );
    let server = start(&path).await;
    let refused = send(&server, Method::POST, MAPS, Some(config_map("a"))).await;
    assert_eq!(
        refused.code,
        StatusCode::INTERNAL_SERVER_ERROR,
        "{:?}",
        refused.body
    );
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("kubectl delete validatingwebhookconfigurations guard"),
        "{message}"
    );
    let deleted = send(&server, Method::DELETE, &format!("{all}/guard"), None).await;
    assert_eq!(deleted.code, StatusCode::OK, "{:?}", deleted.body);
    create(&server, MAPS, config_map("a")).await;
    stop(server).await;
}

fn content(name: &str) -> impl FnOnce(u64) -> Bytes + Send + 'static {
    let object = json!({"metadata": {"name": name}, "marker": format!("marker-of-{name}-end")});
    move |_| Bytes::from(object.to_string())
}

/// A store with many objects, some deleted and compacted, and its current content.
async fn many(path: &Path) -> (Store, Vec<(Arc<str>, Bytes)>) {
    let store = Store::open(path, Options::default()).unwrap();
    for number in 0..300 {
        let name = format!("object-{number}");
        let key = format!("/registry/things/{name}");
        store
            .write(Write::put(key.as_str(), Expect::Any, content(&name)))
            .await
            .unwrap();
        if number % 7 == 0 {
            store
                .write(Write::delete(key.as_str(), Expect::Any, content(&name)))
                .await
                .unwrap();
        }
        if number == 200 {
            store.compact(store.revision()).await.unwrap();
        }
    }
    let current = all(&store);
    (store, current)
}

fn all(store: &Store) -> Vec<(Arc<str>, Bytes)> {
    let page = store.list("/registry/", Bound::Unbounded, 0, None).unwrap();
    page.entries
        .iter()
        .filter(|entry| entry.damage().is_none())
        .map(|entry| (Arc::clone(&entry.key), entry.value.clone()))
        .collect()
}

/// The file after a power cut: not closed.
fn crashed(path: &Path, to: &Path) {
    fs::copy(path, to).unwrap();
}

fn overwrite(path: &Path, what: &[u8], with: u8) -> usize {
    let mut bytes = fs::read(path).unwrap();
    let places: Vec<usize> = bytes
        .windows(what.len())
        .enumerate()
        .filter(|(_, window)| *window == what)
        .map(|(at, _)| at)
        .collect();
    for at in &places {
        bytes[at + 3] = with;
    }
    fs::write(path, bytes).unwrap();
    places.len()
}

/// A power cut and a bad sector at once: the database rejects the file, the store recovers it.
#[tokio::test]
async fn damaged_record_in_a_file_that_was_not_closed_costs_one_object() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (
        folder.path().join("store.redb"),
        folder.path().join("copy.redb"),
    );
    let (store, current) = many(&path).await;
    crashed(&path, &copy);
    store.close().await;
    assert!(overwrite(&copy, b"marker-of-object-150-end", b'!') > 0);
    assert!(
        redb::Database::open(&copy).is_err(),
        "the database repairs it by itself"
    );

    let again = Store::open(&copy, Options::default()).unwrap();
    let lost = "/registry/things/object-150";
    let expected: Vec<_> = current
        .iter()
        .filter(|(key, _)| **key != *lost)
        .cloned()
        .collect();
    assert_eq!(all(&again), expected);
    assert_eq!(
        again
            .damaged()
            .iter()
            .map(|entry| &*entry.key)
            .collect::<Vec<_>>(),
        [lost]
    );
    assert!(again.revision() >= store.revision());
    again
        .write(Write::delete(lost, Expect::Any, content("object-150")))
        .await
        .unwrap();
    again.close().await;
    let kept: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("copy.redb.damaged-"))
        .collect();
    assert_eq!(kept.len(), 1);
    for path in kept.iter().chain([&copy]) {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let last = Store::open(&copy, Options::default()).unwrap();
    assert_eq!(all(&last), expected);
    assert!(last.damaged().is_empty());
}

/// Damage to any part of the file results in an error that names the file, or in a store in which
/// all damage is marked. No deleted object reappears.
#[tokio::test]
async fn no_damage_to_the_file_is_served_or_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let (store, current) = many(&path).await;
    let torn = folder.path().join("torn.redb");
    crashed(&path, &torn);
    store.close().await;
    let mut seed = 0x5eed_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
    };
    let mut opened = 0;
    for round in 0..120 {
        let source = if round % 2 == 0 { &path } else { &torn };
        let mut bytes = fs::read(source).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let length = [1, 1, 16, 512, 4096][random(5)];
        let at = random(used);
        let end = (at + length).min(bytes.len());
        let fill = u8::try_from(random(256)).unwrap();
        for byte in &mut bytes[at..end] {
            *byte = if length == 1 {
                *byte ^ (1 << (fill % 8))
            } else {
                fill
            };
        }
        let case = format!("round {round}: {length} bytes at {at} are {fill}");
        let target = folder.path().join(format!("case-{round}.redb"));
        fs::write(&target, &bytes).unwrap();
        match Store::open(&target, Options::default()) {
            Ok(store) => {
                opened += 1;
                for (key, value) in all(&store) {
                    let known = current.iter().find(|(known, _)| *known == key);
                    assert_eq!(known.map(|(_, value)| value), Some(&value), "{case}: {key}");
                }
                // It can be written, and the write survives a restart.
                let key = "/registry/things/new";
                store
                    .write(Write::put(key, Expect::Any, content("new")))
                    .await
                    .unwrap();
                store.close().await;
                drop(store);
                let again = Store::open(&target, Options::default())
                    .unwrap_or_else(|error| panic!("{case}: {error}"));
                assert!(again.get(key).is_some(), "{case}");
                again.close().await;
            }
            Err(error) => assert!(
                error.to_string().contains(&format!("case-{round}.redb")),
                "{case}: {error}"
            ),
        }
    }
    assert!(opened > 60, "only {opened} of 120 could be opened");
}

#[tokio::test]
async fn overwritten_header_is_an_error_that_names_the_file() {
    let (_folder, path) = three().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[..4096].fill(b'x');
    fs::write(&path, bytes).unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.is_corruption(), "{error:?}");
    assert!(error.to_string().contains("store.redb"), "{error}");
    // The file is left unchanged for manual repair.
    assert_eq!(&fs::read(&path).unwrap()[..4], b"xxxx");
}

#[tokio::test]
async fn file_of_format_1_is_read_and_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let db = redb::Database::create(&path).unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let transaction = db.begin_write().unwrap();
    transaction
        .open_table(meta)
        .unwrap()
        .insert("format", 1)
        .unwrap();
    for (revision, name) in [(2_u64, "a"), (3, "b")] {
        let key = format!("/registry/namespaces/{name}");
        let mut record = vec![0];
        record.extend_from_slice(&revision.to_le_bytes());
        record.extend_from_slice(&u32::try_from(key.len()).unwrap().to_le_bytes());
        record.extend_from_slice(key.as_bytes());
        record.extend_from_slice(json!({"metadata": {"name": name}}).to_string().as_bytes());
        transaction
            .open_table(LOG)
            .unwrap()
            .insert(revision, record.as_slice())
            .unwrap();
    }
    transaction.commit().unwrap();
    drop(db);
    let store = Store::open(&path, Options::default()).unwrap();
    assert_eq!(all(&store).len(), 2);
    assert_eq!(store.revision(), 3);
    store.close().await;
    let db = redb::Database::open(&path).unwrap();
    let format = db.begin_read().unwrap().open_table(meta).unwrap();
    assert_eq!(format.get("format").unwrap().unwrap().value(), 2);
}

#[tokio::test]
async fn store_file_is_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    Store::open(&path, Options::default())
        .unwrap()
        .close()
        .await;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "something is left beside it"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Store::open(&path, Options::default())
        .unwrap()
        .close()
        .await;
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn planted_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (
        folder.path().join("store.redb"),
        folder.path().join("victim"),
    );
    symlink(&victim, &path).unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(!victim.exists());
    fs::write(&victim, "").unwrap();
    Store::open(&path, Options::default()).unwrap_err();
    assert_eq!(fs::read(&victim).unwrap(), b"");
}
