//! `medley importer` as a pod runs it: configured by environment variables, with a termination message as its result.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{
    ContainerDisk, FaultyServer, PASSWORD, RegistryOptions, ScriptedResponse, USERNAME, WebFile,
    same_bytes,
};

use crate::support::{CommandOutput, Fixture, MEDLEY, has, medley, path};

/// Runs an importer with a pod's environment variables; returns its output and its termination message.
async fn importer(
    folder: &Path,
    environment: &[(&str, &str)],
    program: &[&str],
) -> anyhow::Result<(CommandOutput, Value)> {
    let log = folder.join("termination-log");
    let disk = folder.join("disk.img");
    let (first, rest) = program.split_first().unwrap_or((&MEDLEY, &[]));
    let output = tokio::process::Command::new(first)
        .args(rest)
        .args(["importer", "--to", path(&disk)])
        .args(["--termination-log", path(&log)])
        .args(["--header-folder", path(&folder.join("headers"))])
        .args(["--metrics-address", "127.0.0.1:0"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // The test servers are on loopback, which an administrator has to allow.
        .env("MEDLEY_ALLOW_ADDRESS", "127.0.0.0/8")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await?;
    let left = std::fs::read_to_string(&log)?;
    assert!(left.len() <= 4096, "{left}");
    Ok((CommandOutput::of(&output), serde_json::from_str(&left)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn importer_pod_writes_the_disk_and_its_result() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let options = RegistryOptions {
        password: true,
        tls: None,
    };
    let registry = fixture.registry(&["all"], options).await?;
    let url = format!("docker://{}/disks/all:1", registry.host());
    let folder = tempfile::tempdir()?;
    let environment = [
        ("IMPORTER_SOURCE", "registry"),
        ("IMPORTER_ENDPOINT", &url),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "arm64"),
        ("IMPORTER_IMAGE_SIZE", "16777216"),
        ("INSECURE_TLS", "true"),
        ("OWNER_UID", "u"),
    ];
    // Without credentials.
    let (result, left) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    assert_eq!(left["reason"], "PullUnauthorized");
    let mut environment = environment.to_vec();
    environment.push(("IMPORTER_ACCESS_KEY_ID", USERNAME));
    environment.push(("IMPORTER_SECRET_KEY", PASSWORD));
    let (result, left) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(result.code, Some(0), "{}", result.err);
    has(
        &result.err,
        &["\"event\":\"chosen\"", "\"event\":\"imported\""],
    );
    assert_eq!(left["reason"], json!(null));
    assert!(left["content"].is_string(), "{left}");
    same_bytes(&folder.path().join("disk.img"), &fixture.raw("arm64"))?;
    // A pod that is started again replaces the disk.
    let (result, _) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(result.code, Some(0), "{}", result.err);
    Ok(())
}

/// The environment variables of a pod that imports a file.
fn of_a_file<'a>(url: &'a str, checksum: &'a str) -> [(&'static str, &'a str); 8] {
    [
        ("IMPORTER_SOURCE", "http"),
        ("IMPORTER_ENDPOINT", url),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "arm64"),
        ("IMPORTER_IMAGE_SIZE", "16777216"),
        ("IMPORTER_CHECKSUM", checksum),
        ("IMPORTER_EXTRA_HEADER_0", "X-One: 1"),
        ("IMPORTER_ACCESS_KEY_ID", "me"),
        ("IMPORTER_SECRET_KEY", "secret"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn importer_pod_writes_the_disk_of_a_file() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let bytes = fixture.compressed("arm64")?;
    let digest = platform::Digest::sha256(&bytes).to_string();
    let file = WebFile::new(bytes, "one");
    let server = FaultyServer::start(move |asked| {
        // Of `me` and `secret`.
        let known = asked.header("authorization") == Some("Basic bWU6c2VjcmV0")
            && asked.header("x-one") == Some("1")
            && asked.header("x-two") == Some("2");
        match asked.path.as_str() {
            "/disk.qcow2.gz" if known => file.answer(asked),
            "/disk.qcow2.gz" => ScriptedResponse::answer(401, ""),
            _ => ScriptedResponse::answer(404, ""),
        }
    })
    .await?;
    let folder = tempfile::tempdir()?;
    // As the kubelet mounts secrets: links to files in a folder that is replaced as a whole.
    let secret = folder.path().join("headers/0");
    std::fs::create_dir_all(secret.join("..data"))?;
    std::fs::write(secret.join("..data/token"), "X-Two: 2\n")?;
    std::os::unix::fs::symlink("..data/token", secret.join("token"))?;
    let url = format!("http://{}/disk.qcow2.gz", server.host());
    let gone = format!("http://{}/gone", server.host());
    let another = format!("sha256:{}", "0".repeat(64));
    for (url, checksum, without, reason) in [
        (&url, &digest, "IMPORTER_EXTRA_HEADER_0", "PullUnauthorized"),
        (&url, &digest, "IMPORTER_SECRET_KEY", "PullUnauthorized"),
        (&gone, &digest, "", "ImageNotFound"),
        (&url, &another, "", "DigestMismatch"),
        (&url, &"md5:0".to_owned(), "", "ImportFailed"),
    ] {
        let mut environment = of_a_file(url, checksum).to_vec();
        environment.retain(|(name, _)| *name != without);
        let (result, left) = importer(folder.path(), &environment, &[]).await?;
        assert_eq!(result.code, Some(1), "{}", result.err);
        assert_eq!(left["reason"], reason, "{left}");
        assert!(!result.err.contains("secret"), "{}", result.err);
        assert!(!folder.path().join("disk.img").exists());
    }
    let (result, left) = importer(folder.path(), &of_a_file(&url, &digest), &[]).await?;
    assert_eq!(result.code, Some(0), "{}", result.err);
    has(
        &result.err,
        &["\"event\":\"found\"", "\"event\":\"imported\""],
    );
    assert!(left["content"].is_string(), "{left}");
    same_bytes(&folder.path().join("disk.img"), &fixture.raw("arm64"))
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_a_reason_in_the_termination_message() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let names = ["all", "single", "liar", "empty", "bootc"];
    let registry = fixture.registry(&names, RegistryOptions::default()).await?;
    for (name, architecture, size, reason) in [
        ("all", "s390x", "16777216", "ArchitectureNotFound"),
        ("single", "arm64", "16777216", "NotAnIndex"),
        ("liar", "arm64", "16777216", "ArchitectureMismatch"),
        ("empty", "amd64", "16777216", "NoDisk"),
        ("bootc", "amd64", "16777216", "BootableContainer"),
        ("all", "amd64", "1048576", "TooSmall"),
    ] {
        let folder = tempfile::tempdir()?;
        let source = format!("docker://{}/disks/{name}:1", registry.host());
        let environment = [
            ("IMPORTER_ENDPOINT", source.as_str()),
            ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", architecture),
            ("IMPORTER_IMAGE_SIZE", size),
            ("INSECURE_TLS", "true"),
        ];
        let (result, left) = importer(folder.path(), &environment, &[]).await?;
        assert_eq!(result.code, Some(1), "{}", result.err);
        assert_eq!(left["reason"], reason, "{left}");
        has(&result.err, &["\"event\":\"failed\"", reason]);
        assert!(!folder.path().join("disk.img").exists());
    }
    Ok(())
}

/// The file system is full: here, a file size limit of the process stands for it.
#[tokio::test(flavor = "multi_thread")]
async fn full_volume_is_reported_and_the_import_resumes() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let folder = tempfile::tempdir()?;
    let registry = fixture
        .registry(&["all"], RegistryOptions::default())
        .await?;
    let source = format!("docker://{}/disks/all:1", registry.host());
    let environment = [
        ("IMPORTER_ENDPOINT", source.as_str()),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "amd64"),
        ("INSECURE_TLS", "true"),
    ];
    // The limit is in kilobytes; without the trap, SIGXFSZ would kill the process.
    let limited = "trap '' XFSZ; ulimit -f 2048; exec \"$@\"";
    let program = ["bash", "-c", limited, "bash", MEDLEY];
    let (result, left) = importer(folder.path(), &environment, &program).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    assert_eq!(left["reason"], "TooSmall", "{left}");
    assert!(!folder.path().join("disk.img").exists());
    let (result, _) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(result.code, Some(0), "{}", result.err);
    same_bytes(&folder.path().join("disk.img"), &fixture.raw("amd64"))
}

/// A folder stands for the mounted image volume.
#[tokio::test(flavor = "multi_thread")]
async fn image_volume_is_read_where_it_is_mounted() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let image = ContainerDisk::make(folder.path(), "image", 1)?;
    let mounted = folder.path().join("image");
    // No server listens there, and none is contacted.
    let url = format!("docker://registry.invalid/disk@sha256:{}", "1".repeat(64));
    let environment = [
        ("IMPORTER_ENDPOINT", url.as_str()),
        ("IMPORTER_PULL_METHOD", "node"),
        ("IMPORTER_MOUNTED_IMAGE", path(&mounted)),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "arm64"),
        ("IMPORTER_IMAGE_SIZE", "16777216"),
    ];
    let (result, left) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(result.code, Some(0), "{}", result.err);
    has(
        &result.err,
        &["\"event\":\"mounted\"", "\"event\":\"imported\""],
    );
    assert!(left["content"].is_string(), "{left}");
    same_bytes(&folder.path().join("disk.img"), &image.raw)?;

    // The same rules as for layers, with the same reasons.
    let mut small = environment;
    small[4].1 = "1048576";
    let (_, left) = importer(folder.path(), &small, &[]).await?;
    assert_eq!(left["reason"], "TooSmall", "{left}");
    let disk = mounted.join("disk");
    std::fs::write(disk.join("other.img"), "x")?;
    let (result, left) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(result.code, Some(1), "{}", result.err);
    assert_eq!(left["reason"], "NoDisk", "{left}");
    let message = left["message"].as_str().unwrap_or_default();
    assert!(message.contains("more than one file"), "{message}");
    // The target of a symbolic link is not part of the image.
    std::fs::remove_file(disk.join("other.img"))?;
    std::fs::remove_file(disk.join("disk.img"))?;
    std::os::unix::fs::symlink(image.raw, disk.join("disk.img"))?;
    let (_, left) = importer(folder.path(), &environment, &[]).await?;
    assert_eq!(left["reason"], "NoDisk", "{left}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_program_copies_the_binary() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("medley");
    let result = medley(&["importer", "--copy-program", path(&copy)]).await?;
    assert_eq!(result.code, Some(0), "{}", result.err);
    let output = tokio::process::Command::new(&copy)
        .args(["version", "--client"])
        .output()
        .await?;
    assert!(output.status.success());
    Ok(())
}
