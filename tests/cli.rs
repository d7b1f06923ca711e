//! The `medley` binary on the command line and in scripts.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use binary::{MEDLEY, Server, medley, stop, text, until};
use testkit::{Fsync, Process, TestCluster, free_port};

#[test]
fn in_memory_server_starts_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--memory"]);
    assert_eq!(server.kubeconfig, folder.path().join("medley.kubeconfig"));
    let mode = std::fs::metadata(&server.kubeconfig)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(server.ask(&["get", "--raw", "/readyz"]), "ok");
    assert!(server.ask(&["auth", "whoami"]).contains("system:masters"));
    let started = Instant::now();
    assert_eq!(server.stop("-TERM").code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(
        !server.kubeconfig.exists(),
        "keys that are gone are of no use"
    );
}

#[test]
fn shutdown_does_not_wait_for_watches() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--memory"]);
    let watch = Process::start(
        Path::new("kubectl"),
        [
            "--kubeconfig",
            server.kubeconfig.to_str().unwrap(),
            "get",
            "ns",
            "-w",
        ],
        folder.path(),
    )
    .unwrap();
    until("the watch runs", || {
        watch.output().contains("default").then_some(())
    });
    let started = Instant::now();
    assert_eq!(server.stop("-INT").code(), Some(0));
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn objects_outlive_a_killed_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(folder.path(), &["--data", data.to_str().unwrap()]);
    assert_eq!(
        std::fs::metadata(&data).unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert_eq!(server.kubeconfig, data.join("kubeconfig"));
    server.ask(&["create", "configmap", "kept", "--from-literal=a=1"]);
    server.ask(&["create", "serviceaccount", "robot"]);
    let token = server.ask(&["create", "token", "robot"]);
    server.stop("-KILL");

    let mut server = Server::start(folder.path(), &["--data", data.to_str().unwrap()]);
    assert_eq!(
        server.ask(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]),
        "1"
    );
    let user = server.ask(&["auth", "whoami", "--token", token.trim(), "-o", "name"]);
    assert!(!user.is_empty(), "keys are kept as well");
    assert_eq!(server.stop("-TERM").code(), Some(0));
}

#[test]
fn data_folder_is_locked_by_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let server = Server::start(folder.path(), &["--data", data]);
    let before = std::fs::read(&server.kubeconfig).unwrap();
    let second = medley(&["apiserver", "--data", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    let printed = text(&second.stderr);
    for part in [data, "already in use by another server", "--data DIR"] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    assert_eq!(std::fs::read(&server.kubeconfig).unwrap(), before);
    assert_eq!(server.ask(&["get", "--raw", "/readyz"]), "ok");
}

#[test]
fn errors_name_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    std::fs::write(folder.path().join("tokens"), "t,u\n").unwrap();
    std::fs::create_dir(folder.path().join("broken")).unwrap();
    std::fs::write(folder.path().join("broken/store.redb"), "no database").unwrap();
    let free = "127.0.0.1:0";
    let kubeconfig = path("kubeconfig");
    for (arguments, parts) in [
        (
            vec![
                "--memory",
                "--listen",
                &address,
                "--kubeconfig",
                &kubeconfig,
            ],
            vec![address.as_str(), "port 0"],
        ),
        (
            vec!["--data", &path("file/sub"), "--listen", free],
            vec!["file/sub", "--data DIR"],
        ),
        (
            vec!["--data", &path("broken"), "--listen", free],
            vec!["broken/store.redb"],
        ),
        (
            vec![
                "--memory",
                "--listen",
                free,
                "--kubeconfig",
                &path("none/k"),
            ],
            vec!["none/k", "--kubeconfig"],
        ),
        (
            vec![
                "--memory",
                "--listen",
                free,
                "--token-auth-file",
                &path("none"),
            ],
            vec!["token file", "none"],
        ),
        (
            vec![
                "--memory",
                "--listen",
                free,
                "--token-auth-file",
                &path("tokens"),
            ],
            vec!["line 1 of the token file has 2 columns"],
        ),
        (
            vec!["--memory", "--listen", "nonsense"],
            vec!["nonsense", "--listen"],
        ),
        (
            vec!["--memory", "--data", &path("d")],
            vec!["--memory", "--data", "cannot be used with"],
        ),
    ] {
        let line: Vec<&str> = ["apiserver"]
            .into_iter()
            .chain(arguments.iter().map(|a| &**a))
            .collect();
        let output = medley(&line);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {printed}");
        for part in parts {
            assert!(printed.contains(part), "{arguments:?}: {part} in {printed}");
        }
    }
    assert!(
        !Path::new(&kubeconfig).exists(),
        "a kubeconfig is written when the server is ready"
    );
}

#[test]
fn tokens_are_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tokens"),
        "secret,alice,7,\"devs,ops\"\n",
    )
    .unwrap();
    let server = Server::start(folder.path(), &["--memory", "--token-auth-file", "tokens"]);
    // A client certificate takes precedence over a token, so there must be none.
    let view = |path: &str| {
        server.ask(&[
            "config",
            "view",
            "--raw",
            "-o",
            &format!("jsonpath={{{path}}}"),
        ])
    };
    let authority = view(".clusters[0].cluster.certificate-authority-data");
    let bare = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{token: secret}}}}], \
         clusters: [{{name: c, cluster: {{server: '{}', certificate-authority-data: {authority}}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]}}",
        view(".clusters[0].cluster.server"),
    );
    let path = folder.path().join("bare");
    std::fs::write(&path, bare).unwrap();
    let output = Command::new("kubectl")
        .args(["auth", "whoami", "--kubeconfig", path.to_str().unwrap()])
        .env("HOME", folder.path())
        .output()
        .unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(
        printed.contains("alice") && printed.contains("[devs ops system:authenticated]"),
        "{printed}"
    );
}

#[test]
fn version_prints_every_format() {
    let plain = text(&medley(&["version", "--client"]).stdout);
    assert!(plain.starts_with("Client Version: v0."), "{plain}");
    assert!(plain.contains("Kubernetes Version: v1.36."), "{plain}");
    let json = text(&medley(&["version", "--client", "-o", "json"]).stdout);
    assert!(json.contains("\"gitVersion\": \"v1.36."), "{json}");
    let yaml = text(&medley(&["version", "--client", "--output=yaml"]).stdout);
    assert!(
        yaml.contains("kubernetesVersion:\n  gitVersion: v1.36."),
        "{yaml}"
    );
    assert_eq!(
        medley(&["version", "-o", "nonsense"]).status.code(),
        Some(1)
    );
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = medley(&["completion", shell]);
        assert!(output.status.success(), "{shell}");
        let script = text(&output.stdout);
        assert!(
            script.contains("apiserver") && script.contains("medley"),
            "{shell}: {script}"
        );
        assert!(!script.contains("__envtest-"), "{shell}: {script}");
    }
    let output = Command::new("bash")
        .args([
            "-c",
            "source <(\"$0\" completion bash) && complete -p medley",
            MEDLEY,
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn plugin_name_runs_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-medley");
    std::os::unix::fs::symlink(MEDLEY, &plugin).unwrap();
    let help = Command::new(&plugin).arg("--help").output().unwrap();
    assert!(
        text(&help.stdout).contains("Usage: kubectl medley"),
        "{}",
        text(&help.stdout)
    );
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("kubectl")
        .args(["medley", "version"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(
        text(&output.stdout).starts_with("Client Version: v0."),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn kubectl_completion_calls_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["kubectl-medley", "kubectl_complete-medley"] {
        std::os::unix::fs::symlink(MEDLEY, folder.path().join(name)).unwrap();
    }
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let ask = |words: &[&str]| {
        let output = Command::new("kubectl")
            .args(["__complete", "medley"])
            .args(words)
            .env("PATH", &path)
            .env("HOME", folder.path())
            .output()
            .unwrap();
        text(&output.stdout)
    };
    let printed = ask(&["stat"]);
    assert!(
        printed.contains("status\tShow the state of Medley"),
        "{printed}"
    );
    assert!(printed.ends_with(":4\n"), "{printed}");
    let printed = ask(&["release", "status", "--details", ""]);
    assert!(
        printed.contains("operators\tOperators that have not completed"),
        "{printed}"
    );
    let printed = ask(&["snapshot", "--output", ""]);
    assert!(
        printed.ends_with(":0\n"),
        "files are for the shell: {printed}"
    );
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man/man1");
    let output = medley(&["man", "--to", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for page in ["medley", "medley-status", "medley-release-status"] {
        let page = pages.join(format!("{page}.1"));
        let printed = std::fs::read_to_string(&page).unwrap();
        assert!(
            printed.contains(".SH NAME"),
            "{}: {printed}",
            page.display()
        );
        assert!(printed.contains("medley"), "{}: {printed}", page.display());
    }
    let hidden = std::fs::read_dir(&pages).unwrap();
    for page in hidden.map(|entry| entry.unwrap().file_name()) {
        let page = page.to_string_lossy().into_owned();
        assert!(!page.contains("__"), "{page} is for an internal command");
    }
    let status = std::fs::read_to_string(pages.join("medley-status.1")).unwrap();
    assert!(status.contains("medley status"), "examples: {status}");
    let page = text(&medley(&["man"]).stdout);
    assert!(page.contains(".TH medley 1"), "{page}");
}

/// The folder `medley envtest` writes.
fn assets(folder: &Path) -> PathBuf {
    let assets = folder.join("with space/bin");
    let output = medley(&["envtest", assets.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).starts_with("export KUBEBUILDER_ASSETS='"),
        "{}",
        text(&output.stdout)
    );
    assert!(assets.join("kubectl").exists(), "kubectl is offered too");
    assets
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envtest_finds_a_control_plane() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // Starts both with the flags of envtest, with certificates of its own, and polls them.
    let cluster = TestCluster::genuine(&assets(folder.path()), Fsync::Off).await?;
    let namespace = cluster.namespace("envtest").await?;
    assert!(namespace.starts_with("envtest-"), "{namespace}");
    Ok(())
}

/// envtest reads the help of both, and waits for its end, before it starts them.
#[test]
fn shims_describe_their_flags_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let assets = assets(folder.path());
    for (program, flag) in [
        ("etcd", "--unsafe-no-fsync"),
        ("kube-apiserver", "--secure-port"),
    ] {
        let path = assets.join(program);
        let mut process = Process::start(&path, ["--help"], folder.path()).unwrap();
        let status = until(&format!("{program} --help ends"), || {
            process.ended().unwrap()
        });
        assert_eq!(status.code(), Some(0), "{program}");
        let help = process.output();
        // envtest looks for `^\s*--FLAG\b`.
        assert!(
            help.lines()
                .any(|line| line.split_whitespace().next() == Some(flag)),
            "{help}"
        );
        // With it, envtest would start a kube-apiserver of before 1.20.
        assert!(!help.contains("insecure-port"), "{help}");
    }
}

#[test]
fn etcd_shim_is_healthy_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let assets = assets(folder.path());
    let port = free_port().unwrap();
    let arguments = [
        "--unsafe-no-fsync=true".to_owned(),
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        "--listen-peer-urls=http://localhost:0".to_owned(),
        "--data-dir".to_owned(),
        folder.path().join("etcd").to_str().unwrap().to_owned(),
        "--some-flag-of-the-future".to_owned(),
    ];
    let mut etcd = Process::start(&assets.join("etcd"), arguments, folder.path()).unwrap();
    let get = |path: &str| -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let health = until("etcd is healthy", || get("/health"));
    assert!(
        health.starts_with("HTTP/1.1 200 OK") && health.contains(r#""health":"true""#),
        "{health}"
    );
    assert!(get("/v3/kv").unwrap().starts_with("HTTP/1.1 404"));
    let started = Instant::now();
    assert_eq!(stop(&mut etcd, "-TERM").code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[test]
fn kube_apiserver_shim_reports_the_version_and_rejects_bad_flags() {
    let folder = tempfile::tempdir().unwrap();
    let shim = assets(folder.path()).join("kube-apiserver");
    let output = Command::new(&shim).arg("--version").output().unwrap();
    assert!(
        text(&output.stdout).starts_with("Kubernetes v1.36."),
        "{}",
        text(&output.stdout)
    );
    let output = Command::new(&shim)
        .args(["--secure-port=many"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("--secure-port is \"many\""),
        "{}",
        text(&output.stderr)
    );
    let output = Command::new(&shim)
        .args(["--client-ca-file", "/none/ca.crt"])
        .output()
        .unwrap();
    assert!(
        text(&output.stderr).contains("/none/ca.crt (--client-ca-file)"),
        "{}",
        text(&output.stderr)
    );
}
