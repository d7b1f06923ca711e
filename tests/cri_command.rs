//! `medley cri` as a process that a kubelet connects to; killed, stopped, and started again.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

mod binary;
mod cri_support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use binary::{MEDLEY, medley, stop, text, until};
use cri_support::{Service, named, of, rootfs};
use serde_json::json;
use testkit::{CommandOutput, Layout, Process, Registry, Tar};

/// Bytes that do not repeat.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut dice = seed;
    let mut roll = || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
        dice.to_be_bytes()[0]
    };
    (0..length).map(|_| roll()).collect()
}

/// Pushes an index for two platforms, each of several layers; its reference.
fn push(registry: &Registry, folder: &Path, name: &str, layers: usize, size: usize) -> String {
    let mut layout = Layout::new(&folder.join("layout")).unwrap();
    let mut images = Vec::new();
    for (number, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
        let mut made = vec![Tar::new().file("etc/which", 0o644, architecture).finish()];
        for layer in 0..layers {
            let seed = (number * 100 + layer + name.len()) as u64;
            let path = format!("layer-{layer}");
            made.push(Tar::new().file(&path, 0o644, noise(seed, size)).finish());
        }
        let made: Vec<&[u8]> = made.iter().map(Vec::as_slice).collect();
        let config = json!({"os": "linux", "architecture": architecture});
        images.push(layout.image_of(&config, &made).unwrap());
    }
    let index = layout.index(&images).unwrap();
    layout.name("it", &index).unwrap();
    registry.push(&layout.source("it"), name).unwrap();
    format!("{}/{name}", registry.host())
}

const HANDLERS: &str = "
default = \"x86\"
[handlers.x86]
platform = \"linux/amd64\"
[handlers.arm]
platform = \"linux/arm64\"
";

#[tokio::test(flavor = "multi_thread")]
async fn store_survives_kill_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::start().await.unwrap();
    let image = push(&registry, folder.path(), "killed:1", 6, 4 << 20);
    let config = folder.path().join("handlers.toml");
    fs::write(&config, HANDLERS).unwrap();
    let host = registry.host();
    let arguments = ["--config", config.to_str().unwrap(), "--insecure", &host];
    let mut killed_in_a_pull = 0;
    for moment in 0..8_u64 {
        let mut service = Service::start(folder.path(), &arguments);
        let client = service.client.clone();
        // Every listed image is complete.
        for known in client.list(None).await.unwrap() {
            let spec = known.spec.unwrap();
            let place = rootfs(&client, named(&known.id)).await;
            let which = fs::read_to_string(place.join("etc/which")).unwrap();
            let expected = if spec.runtime_handler == "arm" {
                "arm64"
            } else {
                "amd64"
            };
            assert_eq!(which, expected);
            for layer in 0..6 {
                let file = place.join(format!("layer-{layer}"));
                assert_eq!(fs::metadata(file).unwrap().len(), 4 << 20);
            }
        }
        let pulls = ["", "arm"].map(|handler| {
            let (client, spec) = (client.clone(), of(&image, handler));
            tokio::spawn(async move { client.pull(spec, None).await })
        });
        // Kill it midway: when this many bytes have been stored.
        let enough = moment * (3 << 20);
        until("some of it is there", || {
            let done = pulls.iter().all(tokio::task::JoinHandle::is_finished);
            (done || size_of(&service.root) >= enough).then_some(())
        });
        stop(&mut service.process, "-KILL");
        for pull in pulls {
            killed_in_a_pull += usize::from(pull.await.unwrap().is_err());
        }
        // The socket file is left over without a listener: the next process replaces it.
        assert!(service.socket.exists());
        if moment == 3 {
            // A host crash in the middle of a write does no harm either.
            fs::write(service.root.join("images.json.part"), "{\"half").unwrap();
        }
    }
    assert!(killed_in_a_pull > 0, "it was never killed in a pull");
    let service = Service::start(folder.path(), &arguments);
    let client = &service.client;
    let (first, second) = tokio::join!(
        client.pull(of(&image, ""), None),
        client.pull(of(&image, "arm"), None)
    );
    assert_ne!(first.unwrap(), second.unwrap());
    for (handler, architecture) in [("", "amd64"), ("arm", "arm64")] {
        let place = rootfs(client, of(&image, handler)).await;
        let which = fs::read_to_string(place.join("etc/which")).unwrap();
        assert_eq!(which, architecture);
    }
    assert_eq!(client.list(None).await.unwrap().len(), 2);
    // The content of every blob matches its digest.
    let verified = Command::new("sh")
        .current_dir(service.root.join("blobs/sha256"))
        .args([
            "-c",
            "for f in *; do echo \"$f  $f\"; done | sha256sum --check --quiet",
        ])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", text(&verified.stdout));
}

fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_private_and_removed_on_exit() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("made/by/it");
    let socket = inner.join("cri.sock");
    let root = folder.path().join("store");
    let (listen, store) = (
        format!("unix://{}", socket.display()),
        root.to_str().unwrap(),
    );
    let arguments = ["cri", "--listen", &listen, "--root", store];
    let mut process = Process::start(Path::new(MEDLEY), arguments, folder.path()).unwrap();
    until("it is ready", || {
        process.output().contains("ready").then_some(())
    });
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(&inner), 0o700);
    // A socket in use is not replaced, and neither is a locked store.
    let other = folder.path().join("other");
    let busy = medley(&[
        "cri",
        "--listen",
        &listen,
        "--root",
        other.to_str().unwrap(),
    ]);
    let busy = CommandOutput::of(&busy).refused().unwrap();
    testkit::has(&busy, &["another process listens there", "cri.sock"]);
    let elsewhere = folder.path().join("elsewhere.sock");
    let busy = medley(&[
        "cri",
        "--listen",
        elsewhere.to_str().unwrap(),
        "--root",
        store,
    ]);
    let busy = CommandOutput::of(&busy).refused().unwrap();
    testkit::has(&busy, &["another process uses it", "store"]);
    assert_eq!(stop(&mut process, "-TERM").code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn invalid_configuration_is_rejected_at_startup() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("bad.toml");
    fs::write(&config, "[handlers.a]\nplatform = \"windows(10.0/amd64\"").unwrap();
    let config = config.to_str().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let root = folder.path().join("store");
    let root = root.to_str().unwrap();
    for (arguments, expected_error) in [
        (&["--config", config][..], "handler a"),
        (&["--config", "/nowhere.toml"], "/nowhere.toml"),
        (&["--limit", "many"], "such as 50Gi"),
        (&["--limit", "0"], "such as 50Gi"),
        (&["--listen", "tcp://x"], "expected unix:///PATH"),
        (&["--listen", file], "not a socket"),
        (&["--platform", "*"], "--platform"),
        (&["--pin", "UPPER"], "--pin"),
        (&["--downloads", "0"], "at least 1"),
        (&["--backend", "/run/x.sock"], "--backend needs --config"),
    ] {
        let mut all = vec!["cri", "--root", root];
        all.extend(arguments);
        let refused = CommandOutput::of(&medley(&all)).refused().unwrap();
        testkit::has(&refused, &[expected_error]);
    }
}

/// An unprivileged user owns all files, and can remove them again.
#[tokio::test(flavor = "multi_thread")]
async fn service_works_without_root() {
    let nobody = "65534";
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut program: Vec<&str> = Vec::new();
    if is_root {
        let (user, group) = (nobody, nobody);
        program.extend([
            "setpriv",
            "--reuid",
            user,
            "--regid",
            group,
            "--clear-groups",
        ]);
    }
    // The unprivileged user needs access to the program and the folder.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let registry = Registry::start().await.unwrap();
    let mut layout = Layout::new(&folder.path().join("layout")).unwrap();
    let layer = Tar::new()
        .folder("read-only", 0o555)
        .file("read-only/file", 0o444, "x")
        .special(b'3', "device");
    let above =
        Tar::new()
            .file("read-only/.wh.file", 0o644, "")
            .file("read-only/other", 0o400, "y");
    let layers = [layer.finish(), above.finish()];
    let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
    let config = json!({"os": "linux", "architecture": "amd64"});
    let image = layout.image_of(&config, &layers).unwrap();
    layout.name("it", &image).unwrap();
    registry.push(&layout.source("it"), "user:1").unwrap();
    let image = format!("{}/user:1", registry.host());
    let place = folder.path().join("service");
    fs::create_dir(&place).unwrap();
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(&place, all).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.join("medley");
    fs::copy(MEDLEY, &copy).unwrap();
    let copy = copy.to_str().unwrap().to_owned();
    program.push(&copy);
    let host = registry.host();
    // Not the credentials of the user who runs the tests.
    let credentials = place.join("auth.json");
    fs::write(&credentials, "{}").unwrap();
    let credentials = credentials.to_str().unwrap();
    let platform = ["--platform", "linux/amd64", "--authfile", credentials];
    let arguments = [&["--insecure", &host], &platform[..]].concat();
    let service = Service::start_as(&place, &program, &arguments);
    service.client.pull(named(&image), None).await.unwrap();
    let rootfs = rootfs(&service.client, named(&image)).await;
    let file = fs::metadata(rootfs.join("read-only/other")).unwrap();
    assert_eq!(file.permissions().mode() & 0o7777, 0o400);
    assert!(!rootfs.join("read-only/file").exists());
    assert!(!rootfs.join("device").exists());
    assert!(service.process.output().contains("could not be made"));
    service.client.remove(named(&image)).await.unwrap();
    until("its files are gone", || {
        let trash = fs::read_dir(service.root.join("trash")).unwrap().count();
        (!rootfs.exists() && trash == 0).then_some(())
    });
}
