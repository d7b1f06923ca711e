//! Storage and the wire of the embedded server: file modes, temporary files, damaged records, absurd parameters.

#[path = "../binary.rs"]
mod binary;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use binary::{MEDLEY, Server, medley, text, until};
use http::Request;
use serde_json::{Value, json};
use testkit::{Process, TestCluster};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(below(&path));
        }
        all.push(path);
    }
    all
}

#[test]
fn every_file_of_the_server_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    // The widest umask: modes must not depend on the user's.
    let script = "umask 0; exec \"$0\" apiserver --listen 127.0.0.1:0 --data data";
    let process =
        Process::start(Path::new("/bin/sh"), ["-c", script, MEDLEY], folder.path()).unwrap();
    until("the server is ready", || {
        process.output().contains("ready: ").then_some(())
    });
    assert_eq!(mode(&data), 0o700);
    let mut files = 0;
    for path in below(&data) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
        files += 1;
    }
    // The store, the kubeconfig, the folder of keys, and three keys.
    assert!(files >= 6, "{:?}", below(&data));
}

#[test]
fn store_that_others_can_read_is_narrowed_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--data", "data"]);
    server.stop("-TERM");
    let wide = ["data/store.redb", "data/pki/ca.key", "data/pki/sa.key"]
        .map(|name| folder.path().join(name));
    for path in &wide {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let server = Server::start(folder.path(), &["--data", "data"]);
    for path in &wide {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    let output = server.process.output();
    assert!(
        output.contains("could be opened by other users") && output.contains("store.redb"),
        "{output}"
    );
}

#[test]
fn planted_link_to_a_file_is_not_followed() {
    planted_links_lead_nowhere(true);
}

#[test]
fn planted_dangling_link_creates_no_file() {
    planted_links_lead_nowhere(false);
}

fn planted_links_lead_nowhere(exists: bool) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let victim = folder.path().join("victim");
    fs::create_dir(&data).unwrap();
    if exists {
        fs::write(&victim, "mine").unwrap();
    }
    let untouched = || {
        assert_eq!(victim.exists(), exists);
        assert!(!exists || fs::read_to_string(&victim).unwrap() == "mine");
    };
    symlink(&victim, data.join("store.redb")).unwrap();
    let arguments = ["apiserver", "--listen", "127.0.0.1:0", "--data"];
    let refused = medley(&[arguments.as_slice(), &[data.to_str().unwrap()]].concat());
    assert_eq!(refused.status.code(), Some(1));
    let stderr_text = text(&refused.stderr);
    assert!(
        stderr_text.contains("store.redb") && stderr_text.contains("symbolic link"),
        "{stderr_text}"
    );
    untouched();

    // A kubeconfig is written to a new file that replaces the link.
    fs::remove_file(data.join("store.redb")).unwrap();
    symlink(&victim, data.join("kubeconfig")).unwrap();
    let server = Server::start(folder.path(), &["--data", "data"]);
    assert_eq!(server.ask(&["get", "--raw", "/readyz"]), "ok");
    assert!(!data.join("kubeconfig").is_symlink());
    assert_eq!(mode(&data.join("kubeconfig")), 0o600);
    untouched();
}

#[test]
fn snapshot_is_not_written_through_planted_links() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--data", "data"]);
    let victim = folder.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let target = folder.path().join("copy");
    for name in ["copy", "copy.partial"] {
        symlink(&victim, folder.path().join(name)).unwrap();
    }
    let taken = Command::new(MEDLEY)
        .args(["snapshot", "--output", target.to_str().unwrap()])
        .env("KUBECONFIG", &server.kubeconfig)
        .output()
        .unwrap();
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!target.is_symlink());
    assert_eq!(mode(&target), 0o600);
}

/// Changes a byte in every copy of a text in a file, like a bad sector.
fn damage(path: &Path, what: &str) {
    let mut bytes = fs::read(path).unwrap();
    let places: Vec<usize> = bytes
        .windows(what.len())
        .enumerate()
        .filter(|(_, window)| *window == what.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{what} is not in {}", path.display());
    for at in places {
        bytes[at + 2] = 0xff;
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_record_costs_one_object_which_can_be_deleted() {
    damage_one_record_after("-TERM");
}

#[test]
fn damaged_record_after_a_crash_costs_one_object_which_can_be_deleted() {
    damage_one_record_after("-KILL");
}

fn damage_one_record_after(signal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data/store.redb");
    let mut server = Server::start(folder.path(), &["--data", "data"]);
    for name in ["first", "second", "third"] {
        let content = format!("--from-literal=key=content-of-{name}");
        server.ask(&["create", "configmap", name, &content]);
    }
    server.stop(signal);
    damage(&store, "content-of-second");

    let mut server = Server::start(folder.path(), &["--data", "data"]);
    let key = "/registry/configmaps/default/second";
    let output = server.process.output();
    assert!(
        output.contains(key) && output.contains("damaged"),
        "{output}"
    );
    let listed = server.kubectl(&["get", "configmaps", "-o", "name"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    assert_eq!(text(&listed.stdout), "configmap/first\nconfigmap/third\n");
    assert!(
        text(&listed.stderr).contains(key),
        "{}",
        text(&listed.stderr)
    );
    let got = server.kubectl(&["get", "configmap", "second"]);
    assert!(!got.status.success());
    assert!(text(&got.stderr).contains(key), "{}", text(&got.stderr));
    let metrics = server.ask(&["get", "--raw", "/metrics"]);
    assert!(metrics.contains("resource=\"configmaps\"} 1"), "{metrics}");

    server.ask(&["delete", "configmap", "second"]);
    server.ask(&["create", "configmap", "second", "--from-literal=key=again"]);
    assert_eq!(server.stop("-TERM").code(), Some(0));
    let server = Server::start(folder.path(), &["--data", "data"]);
    assert_eq!(
        server.ask(&["get", "configmaps", "-o", "name"]),
        "configmap/first\nconfigmap/second\nconfigmap/third\n"
    );
    assert!(
        !server.process.output().contains("damaged"),
        "{}",
        server.process.output()
    );
}

#[test]
fn overwritten_store_is_an_error_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data/store.redb");
    let mut server = Server::start(folder.path(), &["--data", "data"]);
    server.stop("-TERM");
    let mut bytes = fs::read(&store).unwrap();
    bytes[..4096].fill(0xaa);
    fs::write(&store, &bytes).unwrap();
    let data = folder.path().join("data");
    let arguments = ["apiserver", "--listen", "127.0.0.1:0", "--data"];
    let refused = medley(&[arguments.as_slice(), &[data.to_str().unwrap()]].concat());
    assert_eq!(refused.status.code(), Some(1));
    let stderr_text = text(&refused.stderr);
    for part in [
        "data/store.redb",
        "restore the file from a copy",
        "move it away",
    ] {
        assert!(stderr_text.contains(part), "{part} in {stderr_text}");
    }
    assert!(!stderr_text.contains("panicked"), "{stderr_text}");
    // The file is not changed.
    assert_eq!(fs::read(&store).unwrap(), bytes);
}

async fn ask(cluster: &TestCluster, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(body.map_or_else(Vec::new, |body| body.to_string().into_bytes()))
        .unwrap();
    let answer = cluster.request(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = serde_json::from_slice(answer.body()).unwrap_or_else(|error| {
        panic!("{path}: {error}: {:?}", answer.body());
    });
    (code, body)
}

/// Numbers that a client may send wherever one is parsed.
const NUMBERS: [&str; 12] = [
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "-1",
    "9223372037",
    "1e9",
    "0x10",
    "99999999999999999999999999999999999999999",
    "%20",
];

/// Whether Go's `strconv.ParseInt` accepts a number.
fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

#[tokio::test]
async fn absurd_numbers_in_a_list_are_answered() {
    let cluster = TestCluster::start().await.unwrap();
    let namespace = cluster.namespace("numbers").await.unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    for number in NUMBERS {
        let expected = if is_integer(number) { 200 } else { 400 };
        for parameter in ["limit", "timeoutSeconds"] {
            let (code, body) = ask(
                &cluster,
                "GET",
                &format!("{path}?{parameter}={number}"),
                None,
            )
            .await;
            assert_eq!(code, expected, "{parameter}={number}: {body}");
        }
        if number.parse::<u64>().is_err() {
            let (code, body) = ask(
                &cluster,
                "GET",
                &format!("{path}?resourceVersion={number}"),
                None,
            )
            .await;
            assert_eq!(code, 400, "resourceVersion={number}: {body}");
            let one = format!("{path}/none?resourceVersion={number}");
            let (code, body) = ask(&cluster, "GET", &one, None).await;
            assert_eq!(code, 500, "resourceVersion={number}: {body}");
        }
        let (code, body) = ask(&cluster, "GET", &format!("{path}?timeout={number}"), None).await;
        assert_eq!(code, 400, "timeout={number}: {body}");
        let (code, body) = ask(&cluster, "GET", &format!("{path}?timeout={number}h"), None).await;
        // A negative limit means no limit.
        let expected = if number == "-1" { 200 } else { 400 };
        assert_eq!(code, expected, "timeout={number}h: {body}");
    }
    for version in ["9223372036854775807", "18446744073709551615"] {
        let (code, body) = ask(
            &cluster,
            "GET",
            &format!("{path}?resourceVersion={version}"),
            None,
        )
        .await;
        assert_eq!(
            (code, body["reason"].as_str()),
            (504, Some("Timeout")),
            "{version}: {body}"
        );
    }
}

#[tokio::test]
async fn forged_continue_tokens_are_answered_and_stay_in_their_collection() {
    let cluster = TestCluster::start().await.unwrap();
    let namespace = cluster.namespace("tokens").await.unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = json!({"metadata": {"name": "m1"}});
    assert_eq!(ask(&cluster, "POST", &path, Some(object)).await.0, 201);
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let object = json!({"metadata": {"name": "hidden"}});
    assert_eq!(ask(&cluster, "POST", &secrets, Some(object)).await.0, 201);
    for (token, expected) in [
        (
            r#"{"v":"meta.k8s.io/v1","rv":9223372036854775807,"start":"m1"}"#,
            504,
        ),
        (
            r#"{"v":"meta.k8s.io/v1","rv":9223372036854775808,"start":"m1"}"#,
            400,
        ),
        (
            r#"{"v":"meta.k8s.io/v1","rv":-9223372036854775808,"start":"a"}"#,
            200,
        ),
        (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}"#, 200),
        (r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#, 400),
        (r#"{"v":"meta.k8s.io/v1","rv":1e300,"start":"a"}"#, 400),
        (
            r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"../../secrets/"}"#,
            400,
        ),
        (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":""}"#, 400),
        ("[]", 400),
        ("42", 400),
        ("nonsense", 400),
    ] {
        let forged = URL_SAFE_NO_PAD.encode(token);
        let (code, body) = ask(
            &cluster,
            "GET",
            &format!("{path}?limit=1&continue={forged}"),
            None,
        )
        .await;
        assert_eq!(code, expected, "{token}: {body}");
        assert!(!body.to_string().contains("hidden"), "{token}: {body}");
    }
}

#[tokio::test]
async fn absurd_timeout_of_a_watch_ends_no_connection() {
    let cluster = TestCluster::start().await.unwrap();
    let namespace = cluster.namespace("watches").await.unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    for number in NUMBERS {
        let request = Request::get(format!("{path}?watch=true&timeoutSeconds={number}"));
        let request = request.body(Vec::new()).unwrap();
        let lines = cluster.stream(request).await.unwrap();
        let expected = if is_integer(number) { 200 } else { 400 };
        assert_eq!(lines.status.as_u16(), expected, "timeoutSeconds={number}");
    }
    if cluster.is_genuine() {
        // Go's clock overflows there, so that the longest watch ends at once.
        return;
    }
    let request = Request::get(format!(
        "{path}?watch=true&timeoutSeconds=9223372036854775807"
    ));
    let mut lines = cluster
        .stream(request.body(Vec::new()).unwrap())
        .await
        .unwrap();
    let object = json!({"metadata": {"name": "seen"}});
    assert_eq!(ask(&cluster, "POST", &path, Some(object)).await.0, 201);
    let event = lines.next_json().await.unwrap().unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["metadata"]["name"], "seen");
}

#[tokio::test]
async fn absurd_grace_periods_are_answered() {
    let cluster = TestCluster::start().await.unwrap();
    let namespace = cluster.namespace("grace").await.unwrap();
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = |name: &str, grace: Value| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": "n1",
            "terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "i"}]}})
    };
    for (index, number) in NUMBERS.iter().enumerate() {
        let name = format!("p{index}");
        assert_eq!(
            ask(&cluster, "POST", &pods, Some(pod(&name, json!(30))))
                .await
                .0,
            201
        );
        let path = format!("{pods}/{name}?gracePeriodSeconds={number}");
        let (code, body) = ask(&cluster, "DELETE", &path, None).await;
        let Ok(seconds) = number.parse::<i64>() else {
            assert_eq!(code, 400, "{number}: {body}");
            continue;
        };
        assert_eq!(code, 200, "{number}: {body}");
        let expected = if seconds < 0 { 1 } else { seconds };
        assert_eq!(
            body["metadata"]["deletionGracePeriodSeconds"], expected,
            "{number}"
        );
        // Once more with another value: the stored one is used in arithmetic as well.
        let sooner = format!("{pods}/{name}?gracePeriodSeconds=0");
        assert_eq!(
            ask(&cluster, "DELETE", &sooner, None).await.0,
            200,
            "{number}"
        );
    }
    for number in ["9223372036854775808", "1e300", "\"30\"", "[]"] {
        let options = format!(
            r#"{{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":{number}}}"#
        );
        let options = serde_json::from_str(&options).unwrap();
        let (code, body) = ask(&cluster, "DELETE", &format!("{pods}/none"), Some(options)).await;
        assert_eq!(code, 400, "{number}: {body}");
    }
    let longest = json!(i64::MAX);
    assert_eq!(
        ask(
            &cluster,
            "POST",
            &pods,
            Some(pod("longest", longest.clone()))
        )
        .await
        .0,
        201
    );
    let (code, body) = ask(&cluster, "DELETE", &format!("{pods}/longest"), None).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(body["metadata"]["deletionGracePeriodSeconds"], longest);
    let sooner = format!("{pods}/longest?gracePeriodSeconds=1");
    assert_eq!(ask(&cluster, "DELETE", &sooner, None).await.0, 200);
}
