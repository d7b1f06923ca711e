//! `medley importer` as a pod runs it: told by its environment, and leaving its outcome behind.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{
    ContainerDisk, HostileServer, Misdeed, PASSWORD, RegistryOptions, USERNAME, WebFile, same_bytes,
};

use crate::support::{Fixture, MEDLEY, Said, has, medley, path};

/// Runs an importer in the environment of a pod; what it said, and what it left behind.
async fn importer(
    folder: &Path,
    environment: &[(&str, &str)],
    program: &[&str],
) -> anyhow::Result<(Said, Value)> {
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
        // Servers of tests are on loopback, which an administrator has to allow.
        .env("MEDLEY_ALLOW_ADDRESS", "127.0.0.0/8")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await?;
    let left = std::fs::read_to_string(&log)?;
    assert!(left.len() <= 4096, "{left}");
    Ok((Said::of(&output), serde_json::from_str(&left)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_leaves_a_disk_and_what_it_found() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let options = RegistryOptions {
        password: true,
        tls: None,
    };
    let registry = fixture.registry(&["all"], options).await?;
    let url = format!("docker://{}/disks/all:1", registry.host());
    let folder = tempfile::tempdir()?;
    let told = [
        ("IMPORTER_SOURCE", "registry"),
        ("IMPORTER_ENDPOINT", &url),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "arm64"),
        ("IMPORTER_IMAGE_SIZE", "16777216"),
        ("INSECURE_TLS", "true"),
        ("OWNER_UID", "u"),
    ];
    // Without credentials.
    let (said, left) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(left["reason"], "PullUnauthorized");
    let mut told = told.to_vec();
    told.push(("IMPORTER_ACCESS_KEY_ID", USERNAME));
    told.push(("IMPORTER_SECRET_KEY", PASSWORD));
    let (said, left) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    has(
        &said.err,
        &["\"event\":\"chosen\"", "\"event\":\"imported\""],
    );
    assert_eq!(left["reason"], json!(null));
    assert!(left["content"].is_string(), "{left}");
    same_bytes(&folder.path().join("disk.img"), &fixture.raw("arm64"))?;
    // Again: what is there is replaced, as a pod that is started twice has to.
    let (said, _) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    Ok(())
}

/// What a pod that imports a file is told.
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
async fn a_pod_leaves_a_disk_of_a_file() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let bytes = fixture.compressed("arm64")?;
    let digest = platform::Digest::sha256(&bytes).to_string();
    let file = WebFile::new(bytes, "one");
    let server = HostileServer::start(move |asked| {
        // Of `me` and `secret`.
        let known = asked.header("authorization") == Some("Basic bWU6c2VjcmV0")
            && asked.header("x-one") == Some("1")
            && asked.header("x-two") == Some("2");
        match asked.path.as_str() {
            "/disk.qcow2.gz" if known => file.answer(asked),
            "/disk.qcow2.gz" => Misdeed::answer(401, ""),
            _ => Misdeed::answer(404, ""),
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
        let mut told = of_a_file(url, checksum).to_vec();
        told.retain(|(name, _)| *name != without);
        let (said, left) = importer(folder.path(), &told, &[]).await?;
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert_eq!(left["reason"], reason, "{left}");
        assert!(!said.err.contains("secret"), "{}", said.err);
        assert!(!folder.path().join("disk.img").exists());
    }
    let (said, left) = importer(folder.path(), &of_a_file(&url, &digest), &[]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    has(
        &said.err,
        &["\"event\":\"found\"", "\"event\":\"imported\""],
    );
    assert!(left["content"].is_string(), "{left}");
    same_bytes(&folder.path().join("disk.img"), &fixture.raw("arm64"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_left_behind_by_name() -> anyhow::Result<()> {
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
        let told = [
            ("IMPORTER_ENDPOINT", source.as_str()),
            ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", architecture),
            ("IMPORTER_IMAGE_SIZE", size),
            ("INSECURE_TLS", "true"),
        ];
        let (said, left) = importer(folder.path(), &told, &[]).await?;
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert_eq!(left["reason"], reason, "{left}");
        has(&said.err, &["\"event\":\"failed\"", reason]);
        assert!(!folder.path().join("disk.img").exists());
    }
    Ok(())
}

/// The file system has no room for the disk: here, the process may not write files of that size.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_gets_full_is_told_of_and_gone_on_with() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let folder = tempfile::tempdir()?;
    let registry = fixture
        .registry(&["all"], RegistryOptions::default())
        .await?;
    let source = format!("docker://{}/disks/all:1", registry.host());
    let told = [
        ("IMPORTER_ENDPOINT", source.as_str()),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "amd64"),
        ("INSECURE_TLS", "true"),
    ];
    // The limit is in kilobytes; without a trap, it would be the end of the process.
    let limited = "trap '' XFSZ; ulimit -f 2048; exec \"$@\"";
    let program = ["bash", "-c", limited, "bash", MEDLEY];
    let (said, left) = importer(folder.path(), &told, &program).await?;
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(left["reason"], "TooSmall", "{left}");
    assert!(!folder.path().join("disk.img").exists());
    let (said, _) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    same_bytes(&folder.path().join("disk.img"), &fixture.raw("amd64"))
}

/// A folder stands for the image that a node has pulled and mounted.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_the_node_has_pulled_is_read_where_it_is_mounted() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let image = ContainerDisk::make(folder.path(), "image", 1)?;
    let mounted = folder.path().join("image");
    // Nobody answers there; nobody is asked.
    let url = format!("docker://registry.invalid/disk@sha256:{}", "1".repeat(64));
    let told = [
        ("IMPORTER_ENDPOINT", url.as_str()),
        ("IMPORTER_PULL_METHOD", "node"),
        ("IMPORTER_MOUNTED_IMAGE", path(&mounted)),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "arm64"),
        ("IMPORTER_IMAGE_SIZE", "16777216"),
    ];
    let (said, left) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    has(
        &said.err,
        &["\"event\":\"mounted\"", "\"event\":\"imported\""],
    );
    assert!(left["content"].is_string(), "{left}");
    same_bytes(&folder.path().join("disk.img"), &image.raw)?;

    // The same rules as for layers, and the same names for what is wrong.
    let mut small = told;
    small[4].1 = "1048576";
    let (_, left) = importer(folder.path(), &small, &[]).await?;
    assert_eq!(left["reason"], "TooSmall", "{left}");
    let disk = mounted.join("disk");
    std::fs::write(disk.join("other.img"), "x")?;
    let (said, left) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(left["reason"], "NoDisk", "{left}");
    let message = left["message"].as_str().unwrap_or_default();
    assert!(message.contains("more than one file"), "{message}");
    // What a link leads to is not the image's.
    std::fs::remove_file(disk.join("other.img"))?;
    std::fs::remove_file(disk.join("disk.img"))?;
    std::os::unix::fs::symlink(image.raw, disk.join("disk.img"))?;
    let (_, left) = importer(folder.path(), &told, &[]).await?;
    assert_eq!(left["reason"], "NoDisk", "{left}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_copies_itself_for_images_that_have_none() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("medley");
    let said = medley(&["importer", "--copy-program", path(&copy)]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let output = tokio::process::Command::new(&copy)
        .arg("version")
        .output()
        .await?;
    assert!(output.status.success());
    Ok(())
}
