//! `medley image inspect` and `medley images import` as people and programs use them, against a real
//! registry, which is a web server as well, and one that misbehaves.
#[path = "images_cli_importer.rs"]
mod importer;
#[path = "images_cli_support.rs"]
mod support;

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use support::{Fixture, MEDLEY, Said, certificate, has, medley, path};
use testkit::{Misdeed, Registry, RegistryOptions, same_bytes, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn each_architecture_gets_its_own_disk() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = Registry::start().await?;
    registry.push(&fixture.source("all"), "disks/all:1")?;
    let host = registry.host();
    let image = format!("docker://{host}/disks/all:1");
    for (asked, architecture) in [("amd64", "amd64"), ("aarch64", "arm64")] {
        let to = fixture.folder().join(format!("{architecture}.raw"));
        let line = [
            "images",
            "import",
            &image,
            "--arch",
            asked,
            "--to",
            path(&to),
            "--insecure",
            &host,
            "-o",
            "json",
        ];
        let said = medley(&line).await?;
        has(
            &said.err,
            &["\"event\":\"chosen\"", "\"event\":\"imported\""],
        );
        let result = said.json()?;
        assert_eq!(result["platform"]["architecture"], architecture);
        assert_eq!(result["digest"], fixture.digest(architecture));
        assert_eq!(result["size"], 8 << 20);
        same_bytes(&to, &fixture.raw(architecture))?;
        assert!(
            !fixture
                .folder()
                .join(format!("{architecture}.raw.part"))
                .exists()
        );

        // What is there stays, unless it may go.
        std::fs::write(&to, "precious")?;
        let refused = medley(&line).await?.refused()?;
        has(&refused, &["exists already", "--force"]);
        assert_eq!(std::fs::read(&to)?, b"precious");
        let mut forced = line.to_vec();
        forced.push("--force");
        medley(&forced).await?.ok()?;
        same_bytes(&to, &fixture.raw(architecture))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn layouts_are_read_without_a_registry() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let archive = fixture.archive()?;
    for (name, source) in [
        ("folder", fixture.source("all")),
        ("archive", format!("oci-archive:{}:all", path(&archive))),
    ] {
        let to = fixture.folder().join(name);
        let line = [
            "images",
            "import",
            &source,
            "--arch",
            "arm64",
            "--to",
            path(&to),
        ];
        let text = medley(&line).await?.ok()?;
        has(
            &text,
            &[
                "Platform: linux/arm64",
                "8.00 MiB",
                &fixture.digest("arm64"),
            ],
        );
        same_bytes(&to, &fixture.raw("arm64"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_with_what_is() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let to = fixture.folder().join("none");
    for (name, arguments, reason, parts) in [
        (
            "all",
            &["--arch", "s390x"][..],
            "ArchitectureNotFound",
            &[
                "linux/s390x",
                "linux/amd64, linux/arm64",
                "medley image inspect",
            ][..],
        ),
        (
            "single",
            &["--arch", "arm64"],
            "NotAnIndex",
            &["linux/arm64", "not an index, but one image for linux/amd64"],
        ),
        (
            "liar",
            &["--arch", "arm64"],
            "ArchitectureMismatch",
            &["its index says that it is for linux/arm64, but its config says linux/amd64"],
        ),
        (
            "empty",
            &["--arch", "amd64"],
            "NoDisk",
            &["/disk has no file"],
        ),
        (
            "bootc",
            &["--arch", "amd64"],
            "BootableContainer",
            &["bootc image detected: containers.bootc=1"],
        ),
        (
            "all",
            &["--arch", "amd64", "--size", "1Mi"],
            "TooSmall",
            &["8388608", "1048576"],
        ),
    ] {
        let source = fixture.source(name);
        let mut line = vec!["images", "import", &source, "--to", path(&to)];
        line.extend(arguments);
        let said = medley(&line).await?.refused()?;
        has(&said, &[&format!("\"reason\":\"{reason}\"")]);
        has(&said, parts);
        fixture.nothing_at(&to)?;
    }
    // What makes no sense is said before anything is asked.
    let source = fixture.source("all");
    let line = [
        "images",
        "import",
        &source,
        "--arch",
        "sparc9",
        "--to",
        path(&to),
    ];
    has(
        &medley(&line).await?.refused()?,
        &["\"sparc9\"", "amd64, arm64"],
    );
    let line = [
        "images",
        "import",
        "ftp://x/y",
        "--arch",
        "amd64",
        "--to",
        path(&to),
    ];
    has(&medley(&line).await?.err, &["ftp", "docker://"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_a_file() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = Registry::start_with(RegistryOptions {
        password: true,
        tls: None,
    })
    .await?;
    registry.push(&fixture.source("all"), "disks/all:1")?;
    let host = registry.host();
    let image = format!("{host}/disks/all:1");
    let to = fixture.folder().join("disk");
    let authfile = fixture.folder().join("auth.json");
    let mut line = vec![
        "images",
        "import",
        &image,
        "--arch",
        "amd64",
        "--to",
        path(&to),
        "--insecure",
        &host,
        "--authfile",
        path(&authfile),
    ];
    has(
        &medley(&line).await?.refused()?,
        &["reading credentials", "auth.json"],
    );
    std::fs::write(&authfile, "{}")?;
    let said = medley(&line).await?.refused()?;
    has(&said, &["PullUnauthorized", "--authfile FILE"]);
    fixture.nothing_at(&to)?;
    let auths = json!({ "auths": { &host: {
        "username": testkit::USERNAME, "password": testkit::PASSWORD,
    } } });
    std::fs::write(&authfile, auths.to_string())?;
    medley(&line).await?.ok()?;
    same_bytes(&to, &fixture.raw("amd64"))?;
    line.truncate(7);
    let missing = format!("{host}/disks/none:1");
    line[2] = &missing;
    line.extend([
        "--force",
        "--insecure",
        &host,
        "--authfile",
        path(&authfile),
    ]);
    has(&medley(&line[..]).await?.refused()?, &["ImageNotFound"]);
    same_bytes(&to, &fixture.raw("amd64"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_is_not_what_its_digest_says_leaves_nothing() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let layer = fixture.layer("amd64")?;
    let server = fixture
        .serve("all", move |hash, mut bytes, _| {
            if hash == layer {
                // In the disk, far from the headers of the archive.
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Misdeed::answer(200, bytes)
        })
        .await?;
    let image = format!("docker://{}/disks/all:1", server.host());
    let to = fixture.folder().join("disk");
    for keep in [false, true] {
        let host = server.host();
        let mut line = vec![
            "images",
            "import",
            &image,
            "--arch",
            "amd64",
            "--to",
            path(&to),
            "--insecure",
            &host,
        ];
        if keep {
            line.push("--keep");
        }
        let said = medley(&line).await?.refused()?;
        has(&said, &["DigestMismatch", "sha256:"]);
        assert!(!to.exists());
        assert_eq!(fixture.folder().join("disk.part").exists(), keep);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_interrupted_leaves_nothing_under_the_name() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let layer = fixture.layer("amd64")?;
    let server = fixture
        .serve("all", move |hash, bytes, _| {
            if hash == layer {
                return Misdeed::slow(bytes, 64 << 10, Duration::from_millis(100));
            }
            Misdeed::answer(200, bytes)
        })
        .await?;
    let host = server.host();
    let image = format!("docker://{host}/disks/all:1");
    for (signal, stays) in [("INT", false), ("TERM", false), ("KILL", true)] {
        let to = fixture.folder().join(signal);
        let part = fixture.folder().join(format!("{signal}.part"));
        let child = tokio::process::Command::new(MEDLEY)
            .args(["images", "import", &image, "--arch", "amd64"])
            .args(["--to", path(&to), "--insecure", &host])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let begun = || {
            let written = std::fs::metadata(&part).is_ok_and(|found| found.len() > 0);
            async move { Ok(written.then_some(())) }
        };
        wait_until("a disk that is begun", Duration::from_secs(30), begun).await?;
        assert!(!to.exists());
        let process = child.id().context("it ended early")?.to_string();
        let status = std::process::Command::new("kill")
            .args(["-s", signal, &process])
            .status()?;
        anyhow::ensure!(status.success(), "kill {signal}");
        let said = Said::of(&child.wait_with_output().await?);
        assert!(!to.exists(), "{signal}");
        assert_eq!(part.exists(), stays, "{signal}: {}", said.err);
        if !stays {
            has(&said.refused()?, &["\"event\":\"progress\"", "cancelled"]);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn platforms_are_listed() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = Registry::start().await?;
    registry.push(&fixture.source("all"), "disks/all:1")?;
    registry.push(&fixture.source("single"), "disks/single:1")?;
    let host = registry.host();
    let inspect = async |name: &str, form: &[&str]| {
        let image = format!("{host}/disks/{name}:1");
        let mut line = vec!["image", "inspect", &image, "--insecure", &host];
        line.extend(form);
        medley(&line).await
    };
    let text = inspect("all", &[]).await?.ok()?;
    has(
        &text,
        &[
            "Kind:   index",
            "PLATFORM",
            "linux/amd64",
            "linux/arm64",
            &fixture.digest("amd64"),
            &fixture.digest("arm64"),
            "instancetype=u1.small",
        ],
    );
    let all = inspect("all", &["-o", "json"]).await?.json()?;
    assert_eq!(all["isIndex"], true);
    assert_eq!(all["complete"], true);
    assert_eq!(all["platforms"][1]["platform"]["architecture"], "arm64");
    assert_eq!(all["platforms"][1]["digest"], fixture.digest("arm64"));
    let layer = std::fs::metadata(fixture.folder().join("arm64/layer.tar"))?.len();
    assert_eq!(all["platforms"][1]["details"]["size"], layer);
    let yaml = inspect("all", &["-o", "yaml"]).await?.ok()?;
    has(&yaml, &["isIndex: true\n", &fixture.digest("arm64")]);
    let single = inspect("single", &[]).await?.ok()?;
    has(&single, &["single manifest, not an index", "linux/amd64"]);
    let none = inspect("none", &[]).await?.refused()?;
    has(&none, &["disks/none", "not found"]);

    let liar = fixture.source("liar");
    let text = medley(&["image", "inspect", &liar]).await?.ok()?;
    has(
        &text,
        &["linux/arm64 says in its config that it is for linux/amd64"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_comes_from_a_web_server() -> anyhow::Result<()> {
    let mut fixture = Fixture::new()?;
    let file = fixture.compressed("arm64")?;
    let digest = fixture.wrap("web", &file)?;
    // Blobs of a registry are files on a web server, with tags and ranges.
    let (certificate, key, authority) = certificate()?;
    let registry = Registry::start_with(RegistryOptions {
        password: true,
        tls: Some((certificate, key)),
    })
    .await?;
    registry.push(&fixture.source("web"), "disks/web:1")?;
    let host = registry.host();
    let url = format!("https://{host}/v2/disks/web/blobs/{digest}");
    let to = fixture.folder().join("web.raw");
    let ca = fixture.folder().join("ca.pem");
    let authfile = fixture.folder().join("auth.json");
    std::fs::write(&ca, authority)?;
    let auths = json!({ "auths": { &host: {
        "username": testkit::USERNAME, "password": testkit::PASSWORD,
    } } });
    std::fs::write(&authfile, auths.to_string())?;
    let base = [
        "images",
        "import",
        &url,
        "--arch",
        "arm64",
        "--to",
        path(&to),
    ];
    let with = |more: &[&'static str]| -> Vec<String> {
        let all = base.iter().chain(more).copied();
        all.map(str::to_owned).collect()
    };
    let run = async |mut line: Vec<String>, trusted: bool, known: bool| {
        if trusted {
            line.extend(["--ca".to_owned(), path(&ca).to_owned()]);
        }
        if known {
            line.extend(["--authfile".to_owned(), path(&authfile).to_owned()]);
        }
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        medley(&line).await
    };
    has(
        &run(with(&[]), false, true).await?.refused()?,
        &["RegistryUnavailable", "cannot be reached"],
    );
    has(
        &run(with(&[]), true, false).await?.refused()?,
        &["PullUnauthorized", "--authfile FILE"],
    );
    has(
        &run(with(&["--checksum", "md5:0123"]), true, true)
            .await?
            .refused()?,
        &["checksum \"md5:0123\"", "sha256:DIGITS or sha512:DIGITS"],
    );
    has(
        &run(with(&["--header", "no header"]), true, true)
            .await?
            .refused()?,
        &["--header", "`Name: value`"],
    );
    let mut wrong = with(&["--checksum"]);
    wrong.push(format!("sha256:{}", "0".repeat(64)));
    has(
        &run(wrong, true, true).await?.refused()?,
        &["DigestMismatch", &digest],
    );
    fixture.nothing_at(&to)?;

    let mut line = with(&["--header", "X-Reason: test", "-o", "json", "--checksum"]);
    line.push(digest.to_uppercase().replace("SHA256", "sha256"));
    let said = run(line, true, true).await?;
    has(
        &said.err,
        &["\"event\":\"found\"", "\"etag\":", "\"event\":\"imported\""],
    );
    let result = said.json()?;
    assert_eq!(result["digest"], digest);
    assert_eq!(result["source"], url);
    assert_eq!(result["size"], 8 << 20);
    same_bytes(&to, &fixture.raw("arm64"))?;

    // An image has digests of its own, and a file has no platforms to show.
    let source = fixture.source("all");
    let to = fixture.folder().join("other.raw");
    let line = [
        "images",
        "import",
        &source,
        "--arch",
        "arm64",
        "--to",
        path(&to),
        "--header",
        "a: b",
    ];
    has(
        &medley(&line).await?.refused()?,
        &["--header are for https://"],
    );
    let line = ["image", "inspect", &url];
    has(&medley(&line).await?.refused()?, &["is no image"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_come_from_mirrors() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = Registry::start().await?;
    registry.push(&fixture.source("all"), "disks/all:1")?;
    let host = registry.host();
    let folder = fixture.folder().join("certs.d/origin.example");
    std::fs::create_dir_all(&folder)?;
    let hosts = folder.join("hosts.toml");
    std::fs::write(
        &hosts,
        format!("[host.\"http://{host}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"),
    )?;
    let conf = fixture.folder().join("registries.conf");
    std::fs::write(
        &conf,
        format!(
            "[[registry]]\nlocation = \"origin.example\"\n[[registry.mirror]]\nlocation = \"{host}\"\ninsecure = true\n"
        ),
    )?;
    let image = "origin.example/disks/all:1";
    for mirrors in [&conf, &hosts, &fixture.folder().join("certs.d")] {
        let line = [
            "image",
            "inspect",
            image,
            "--mirrors",
            path(mirrors),
            "-o",
            "json",
        ];
        let all = medley(&line).await?.json()?;
        assert_eq!(all["platforms"][1]["digest"], fixture.digest("arm64"));
    }
    let to = fixture.folder().join("mirrored.raw");
    let line = [
        "images",
        "import",
        image,
        "--arch",
        "amd64",
        "--to",
        path(&to),
        "--mirrors",
        path(&conf),
    ];
    medley(&line).await?.ok()?;
    same_bytes(&to, &fixture.raw("amd64"))?;

    let wrong = fixture.folder().join("wrong.conf");
    std::fs::write(&wrong, "[registries.search]\n")?;
    let line = ["image", "inspect", image, "--mirrors", path(&wrong)];
    has(
        &medley(&line).await?.refused()?,
        &["wrong.conf", "version 1", "expected a registries.conf"],
    );
    let source = fixture.source("all");
    let line = ["image", "inspect", &source, "--mirrors", path(&conf)];
    has(
        &medley(&line).await?.refused()?,
        &["--mirrors is for registries"],
    );
    Ok(())
}
