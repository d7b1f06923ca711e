//! Hostile images and registries: bounded memory, no crash, and no damage to the data of other pulls.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

#[path = "images/bombs.rs"]
mod bombs;
#[path = "images/fixtures.rs"]
mod fixtures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ::cri::api::ImageSpec;
use platform::Digest;
use serde_json::{Value, json};
use testkit::{CriClient, FaultyServer, Process};

use bombs::{bombs, disk_bombs};
use fixtures::{Blob, Images, good, header, layer, octal, zstd};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const MIB: u64 = 1 << 20;

/// Memory limits of the processes for any image (docs/images.md, docs/cri.md).
const IMAGE_SERVICE_MEMORY_LIMIT: u64 = 128 * MIB;
const IMPORTER_MEMORY_LIMIT: u64 = 64 * MIB;

fn named(server: &FaultyServer, name: &str) -> ImageSpec {
    ImageSpec {
        image: format!("{}/{name}:1", server.host()),
        ..ImageSpec::default()
    }
}

/// An image service process.
struct Service {
    process: Process,
    client: CriClient,
    root: PathBuf,
}

impl Service {
    fn start(folder: &Path, server: &FaultyServer, arguments: &[&str]) -> Self {
        let (socket, root) = (folder.join("cri.sock"), folder.join("store"));
        let (listen, store, host) = (
            socket.display().to_string(),
            root.display().to_string(),
            server.host(),
        );
        let own = [
            "cri",
            "-v",
            "--listen",
            &listen,
            "--root",
            &store,
            "--insecure",
            &host,
        ];
        let arguments = own.iter().chain(arguments);
        let mut process = Process::start(Path::new(MEDLEY), arguments, folder).unwrap();
        let started = Instant::now();
        while !process.output().contains("ready: unix://") {
            assert!(process.ended().unwrap().is_none(), "{}", process.output());
            assert!(
                started.elapsed() < Duration::from_mins(1),
                "{}",
                process.output()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let client = CriClient::new(&socket).within(Duration::from_mins(10));
        Self {
            process,
            client,
            root,
        }
    }

    /// Its peak memory. Pages of the program itself are not counted: the kernel can drop them, and an
    /// unoptimised test binary has ten times as many.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            let number = line.split_whitespace().nth(1).unwrap();
            number.parse::<u64>().unwrap() << 10
        };
        field("VmHWM:").saturating_sub(field("RssFile:"))
    }

    async fn rootfs(&self, spec: ImageSpec) -> PathBuf {
        let info = self.client.inspect(spec).await.unwrap().info;
        let info: Value = serde_json::from_str(&info["info"]).unwrap();
        PathBuf::from(info["rootfs"].as_str().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn image_service_takes_bounded_memory_for_any_layer() {
    let folder = tempfile::tempdir().unwrap();
    let bombs = bombs();
    let mut images = Images::default();
    for (name, layers, _) in &bombs {
        images.add(name, layers);
    }
    let many: serde_json::Map<String, Value> = (0..200_000)
        .map(|number| (format!("{number:x}"), json!("")))
        .collect();
    images.add_with(
        "annotations",
        &[good()],
        json!({"annotations": many}),
        json!({}),
    );
    images.add_with(
        "labels",
        &[good()],
        json!({}),
        json!({"config": {"Labels": many}}),
    );
    let history = vec![json!({"empty_layer": true}); 200_000];
    images.add_with("history", &[good()], json!({}), json!({"history": history}));
    let many_layers = vec![json!({"digest": Digest::sha256(b""), "size": 0}); 30_000];
    images.add_with(
        "layers",
        &[good()],
        json!({"layers": many_layers}),
        json!({}),
    );
    images.add("good", &[good()]);
    let server = images.serve().await;
    let service = Service::start(folder.path(), &server, &["--limit", "2Gi"]);
    let documents = [
        ("annotations", "4096"),
        ("labels", "4096"),
        ("history", ""),
        ("layers", "1024"),
    ];
    let layers = bombs
        .iter()
        .map(|(name, _, expected_error)| (*name, *expected_error));
    for (name, expected_error) in layers.chain(documents) {
        let pulled = service.client.pull(named(&server, name), None).await;
        match &pulled {
            Ok(_) => assert_eq!(expected_error, "", "{name}"),
            Err(status) => {
                assert!(!expected_error.is_empty(), "{name}: {status}");
                testkit::has(status.message(), &[expected_error]);
            }
        }
        let peak = service.peak();
        assert!(
            peak <= IMAGE_SERVICE_MEMORY_LIMIT,
            "{name}: {} MiB",
            peak / MIB
        );
        if pulled.is_ok() {
            service.client.remove(named(&server, name)).await.unwrap();
        }
    }
    // The service still works, and nothing is left of the failed pulls.
    service
        .client
        .pull(named(&server, "good"), None)
        .await
        .unwrap();
    let rootfs = service.rootfs(named(&server, "good")).await;
    assert_eq!(
        fs::read_to_string(rootfs.join("etc/which")).unwrap(),
        "good"
    );
    let place = service.root.join("unpacking");
    let started = Instant::now();
    while fs::read_dir(&place).unwrap().next().is_some() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "half a snapshot is left"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(service.peak() <= IMAGE_SERVICE_MEMORY_LIMIT);
}

/// Concurrent pulls use no more memory than one.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_pulls_share_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut images = Images::default();
    for number in 0..8 {
        let name = format!("label-{number}");
        images.add(
            &format!("window-{number}"),
            &[Blob {
                bytes: zstd(25, &header(b'V', &name, "", octal(200 << 20)), 200 << 20),
                diff_id: Digest::sha256(name.as_bytes()),
            }],
        );
    }
    let server = images.serve().await;
    let service = Service::start(folder.path(), &server, &[]);
    let pulls = (0..8).map(|number| {
        let spec = named(&server, &format!("window-{number}"));
        service.client.pull(spec, None)
    });
    for pulled in futures::future::join_all(pulls).await {
        testkit::has(pulled.unwrap_err().message(), &["diff-id"]);
    }
    let peak = service.peak();
    assert!(peak <= IMAGE_SERVICE_MEMORY_LIMIT, "{} MiB", peak / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_size_in_a_manifest_removes_no_blob() {
    let folder = tempfile::tempdir().unwrap();
    let mut images = Images::default();
    let shared = good();
    images.add("good", std::slice::from_ref(&shared));
    let digest = Digest::sha256(&shared.bytes);
    let layer_of = |size: u64| {
        json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": digest,
            "size": size,
        })
    };
    let length = shared.bytes.len() as u64;
    let sizes = [0, 1, length - 1, length + 1, 1 << 30];
    for size in sizes {
        // Another diff-id, so that it is not an image that already exists.
        let other = Blob {
            diff_id: Digest::sha256(&size.to_be_bytes()),
            ..shared.clone()
        };
        let manifest = json!({"layers": [layer_of(size)]});
        images.add_with(&format!("evil-{size}"), &[other], manifest, json!({}));
    }
    let server = images.serve().await;
    let service = Service::start(folder.path(), &server, &[]);
    service
        .client
        .pull(named(&server, "good"), None)
        .await
        .unwrap();
    let blob = service.root.join(digest.blob_path());
    assert_eq!(fs::read(&blob).unwrap(), shared.bytes);
    for size in sizes {
        let spec = named(&server, &format!("evil-{size}"));
        let refused = service.client.pull(spec, None).await.unwrap_err();
        testkit::has(refused.message(), &[&format!("the image says {size}")]);
        assert_eq!(fs::read(&blob).unwrap(), shared.bytes, "size {size}");
    }
    assert_eq!(service.client.list(None).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_an_entry_never_become_files() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = [header(b'0', "hidden", "", octal(5)), vec![b'x'; 512]].concat();
    let long = format!("{}/file", "d".repeat(99));
    let mut images = Images::default();
    images.add(
        "hidden",
        &[layer(|layer| {
            for flag in *b"Z8AVDM" {
                layer.entry(flag, &format!("flag-{flag}"), "", &hidden);
            }
            layer.entry(b'0', "slash/", "", &hidden);
            layer.pax(&[("path", long.as_bytes())]);
            layer.entry(b'0', &long[..100], "", &hidden);
        })],
    );
    let server = images.serve().await;
    let service = Service::start(folder.path(), &server, &[]);
    service
        .client
        .pull(named(&server, "hidden"), None)
        .await
        .unwrap();
    let rootfs = service.rootfs(named(&server, "hidden")).await;
    assert!(!rootfs.join("hidden").exists());
    for path in ["flag-90", "flag-56", "slash", &long] {
        assert_eq!(fs::read(rootfs.join(path)).unwrap(), hidden, "{path}");
    }
}

/// Runs an importer; returns success, output and peak memory.
fn import(folder: &Path, image: &str) -> (bool, String, u64) {
    // As for the image service, pages of the program are not counted.
    const MEASURE: &str = r#"
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
peak = 0
while child.poll() is None:
    with open(f"/proc/{child.pid}/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                peak = max(peak, int(line.split()[1]))
    time.sleep(0.002)
print(child.returncode, peak)
sys.stdout.flush()
sys.stdout.buffer.write(child.stdout.read())
"#;
    let disk = folder.join("disk.img");
    let log = folder.join("termination-log");
    let output = Command::new("python3")
        .args(["-c", MEASURE, MEDLEY, "importer", "--image", image])
        .args([
            Path::new("--to"),
            &disk,
            Path::new("--termination-log"),
            &log,
        ])
        .args(["--metrics-address", "127.0.0.1:0", "--insecure", "true"])
        .args(["--allow-address", "127.0.0.1"])
        .args(["--size", "17179869184", "--check-architecture", "Off"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (first, printed) = text.split_once('\n').unwrap_or((&text, ""));
    let (code, peak) = first.split_once(' ').unwrap_or_default();
    let peak: u64 = peak.parse().unwrap_or_else(|_| panic!("{output:?}"));
    (code == "0", printed.to_owned(), peak << 10)
}

#[tokio::test(flavor = "multi_thread")]
async fn importer_takes_bounded_memory_for_any_layer() {
    let folder = tempfile::tempdir().unwrap();
    let bombs = disk_bombs();
    let mut images = Images::default();
    for (name, bomb, _) in &bombs {
        images.add(name, std::slice::from_ref(bomb));
    }
    let server = images.serve().await;
    for (name, _, expected_error) in bombs {
        let image = format!("docker://{}/{name}:1", server.host());
        let place = folder.path().to_owned();
        let run = tokio::task::spawn_blocking(move || import(&place, &image));
        let (is_ok, output, peak) = run.await.unwrap();
        assert_eq!(is_ok, expected_error.is_empty(), "{name}: {output}");
        testkit::has(&output, &[expected_error]);
        assert!(peak <= IMPORTER_MEMORY_LIMIT, "{name}: {} MiB", peak / MIB);
    }
}

/// Arithmetic on untrusted sizes never wraps: where a check was forgotten, the request fails.
#[test]
fn release_profile_checks_overflow() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let profile = manifest.split("[profile.release]").nth(1).unwrap();
    let profile = profile.split("\n[").next().unwrap();
    assert!(profile.contains("overflow-checks = true"), "{profile}");
}
