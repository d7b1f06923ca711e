//! `medley image inspect` and `medley images import` on a real registry, which also serves as a web server, and
//! on one that misbehaves.
#[path = "images_cli_importer.rs"]
mod importer;
#[path = "images_cli_support.rs"]
mod support;

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use support::{CommandOutput, Fixture, MEDLEY, certificate, has, import, inspect, path};
use testkit::{RegistryOptions, ScriptedResponse, same_bytes, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn every_architecture_is_imported_to_its_own_disk() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = fixture
        .registry(&["all"], RegistryOptions::default())
        .await?;
    let host = registry.host();
    let image = format!("docker://{host}/disks/all:1");
    for (requested, architecture) in [("amd64", "amd64"), ("aarch64", "arm64")] {
        let to = fixture.folder().join(format!("{architecture}.raw"));
        let flags = ["--insecure", &host, "-o", "json"];
        let output = import(&image, requested, &to, &flags).await?;
        has(
            &output.err,
            &["\"event\":\"chosen\"", "\"event\":\"imported\""],
        );
        let result = output.json()?;
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

        // An existing file is kept without `--force`.
        std::fs::write(&to, "precious")?;
        let refused = import(&image, requested, &to, &flags).await?.refused()?;
        has(&refused, &["exists already", "--force"]);
        assert_eq!(std::fs::read(&to)?, b"precious");
        let forced = [&flags[..], &["--force"]].concat();
        import(&image, requested, &to, &forced).await?.ok()?;
        same_bytes(&to, &fixture.raw(architecture))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn oci_layouts_are_read_without_a_registry() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let archive = fixture.archive()?;
    for (name, source) in [
        ("folder", fixture.source("all")),
        ("archive", format!("oci-archive:{}:all", path(&archive))),
    ] {
        let to = fixture.folder().join(name);
        let text = import(&source, "arm64", &to, &[]).await?.ok()?;
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
async fn missing_image_error_lists_the_available_ones() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let to = fixture.folder().join("none");
    for (name, architecture, more, reason, parts) in [
        (
            "all",
            "s390x",
            &[][..],
            "ArchitectureNotFound",
            &[
                "linux/s390x",
                "linux/amd64, linux/arm64",
                "medley image inspect",
            ][..],
        ),
        (
            "single",
            "arm64",
            &[],
            "NotAnIndex",
            &["linux/arm64", "not an index, but one image for linux/amd64"],
        ),
        (
            "liar",
            "arm64",
            &[],
            "ArchitectureMismatch",
            &["its index says that it is for linux/arm64, but its config says linux/amd64"],
        ),
        ("empty", "amd64", &[], "NoDisk", &["/disk has no file"]),
        (
            "bootc",
            "amd64",
            &[],
            "BootableContainer",
            &["bootc image detected: containers.bootc=1"],
        ),
        (
            "all",
            "amd64",
            &["--size", "1Mi"],
            "TooSmall",
            &["8388608", "1048576"],
        ),
    ] {
        let source = fixture.source(name);
        let output = import(&source, architecture, &to, more).await?.refused()?;
        has(&output, &[&format!("\"reason\":\"{reason}\"")]);
        has(&output, parts);
        fixture.nothing_at(&to)?;
    }
    // Invalid arguments are rejected before any request.
    let source = fixture.source("all");
    has(
        &import(&source, "sparc9", &to, &[]).await?.refused()?,
        &["\"sparc9\"", "amd64, arm64"],
    );
    let output = import("ftp://x/y", "amd64", &to, &[]).await?;
    has(&output.err, &["ftp", "docker://"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_read_from_the_authfile() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let options = RegistryOptions {
        password: true,
        tls: None,
    };
    let registry = fixture.registry(&["all"], options).await?;
    let host = registry.host();
    let to = fixture.folder().join("disk");
    let authfile = fixture.folder().join("auth.json");
    let flags = ["--insecure", &host, "--authfile", path(&authfile)];
    let run = async |name: &str, more: &[&str]| {
        let image = format!("{host}/disks/{name}:1");
        import(&image, "amd64", &to, &[&flags, more].concat()).await
    };
    has(
        &run("all", &[]).await?.refused()?,
        &["reading credentials", "auth.json"],
    );
    std::fs::write(&authfile, "{}")?;
    has(
        &run("all", &[]).await?.refused()?,
        &["PullUnauthorized", "--authfile FILE"],
    );
    fixture.nothing_at(&to)?;
    fixture.authfile(&registry)?;
    run("all", &[]).await?.ok()?;
    same_bytes(&to, &fixture.raw("amd64"))?;
    has(
        &run("none", &["--force"]).await?.refused()?,
        &["ImageNotFound"],
    );
    same_bytes(&to, &fixture.raw("amd64"))
}

#[tokio::test(flavor = "multi_thread")]
async fn digest_mismatch_leaves_no_file() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let layer = fixture.layer("amd64")?;
    let server = fixture
        .serve("all", move |hash, mut bytes, _| {
            if hash == layer {
                // Corrupts the disk itself, far from the headers of the archive.
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            ScriptedResponse::answer(200, bytes)
        })
        .await?;
    let image = format!("docker://{}/disks/all:1", server.host());
    let to = fixture.folder().join("disk");
    let host = server.host();
    for keep in [false, true] {
        let flags = ["--insecure", &host, "--keep"];
        let flags = &flags[..if keep { 3 } else { 2 }];
        let output = import(&image, "amd64", &to, flags).await?.refused()?;
        has(&output, &["DigestMismatch", "sha256:"]);
        assert!(!to.exists());
        assert_eq!(fixture.folder().join("disk.part").exists(), keep);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_import_leaves_no_file_of_that_name() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let layer = fixture.layer("amd64")?;
    let server = fixture
        .serve("all", move |hash, bytes, _| {
            if hash == layer {
                return ScriptedResponse::slow(bytes, 64 << 10, Duration::from_millis(100));
            }
            ScriptedResponse::answer(200, bytes)
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
        let output = CommandOutput::of(&child.wait_with_output().await?);
        assert!(!to.exists(), "{signal}");
        assert_eq!(part.exists(), stays, "{signal}: {}", output.err);
        if !stays {
            has(&output.refused()?, &["\"event\":\"progress\"", "cancelled"]);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn platforms_are_listed() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let options = RegistryOptions::default();
    let registry = fixture.registry(&["all", "single"], options).await?;
    let host = registry.host();
    let run = async |name: &str, more: &[&str]| {
        let image = format!("{host}/disks/{name}:1");
        inspect(&image, &[&["--insecure", &host], more].concat()).await
    };
    let text = run("all", &[]).await?.ok()?;
    has(
        &text,
        &[
            "Kind:   index",
            "PLATFORM",
            "linux/amd64",
            "linux/arm64",
            &fixture.digest("amd64"),
            &fixture.digest("arm64"),
        ],
    );
    // Details that are not in the index are only fetched with `--details`.
    assert!(!text.contains("LABELS"), "{text}");
    let all = run("all", &["-o", "json"]).await?.json()?;
    assert_eq!(all["isIndex"], true);
    assert_eq!(all["complete"], true);
    assert_eq!(all["platforms"][1]["platform"]["architecture"], "arm64");
    assert_eq!(all["platforms"][1]["digest"], fixture.digest("arm64"));
    assert_eq!(all["platforms"][1]["details"], json!(null));
    let yaml = run("all", &["-o", "yaml"]).await?.ok()?;
    has(&yaml, &["isIndex: true\n", &fixture.digest("arm64")]);

    let text = run("all", &["--details"]).await?.ok()?;
    has(&text, &["SIZE", "LABELS", "instancetype=u1.small"]);
    let all = run("all", &["--details", "-o", "json"]).await?.json()?;
    let layer = std::fs::metadata(fixture.folder().join("arm64/layer.tar"))?.len();
    assert_eq!(all["platforms"][1]["details"]["size"], layer);

    // The platform of a single manifest is in its config, which has all details.
    let single = run("single", &[]).await?.ok()?;
    has(
        &single,
        &[
            "single manifest, not an index",
            "linux/amd64",
            "instancetype=u1.small",
        ],
    );
    let none = run("none", &[]).await?.refused()?;
    has(&none, &["disks/none", "not found"]);

    let liar = fixture.source("liar");
    let text = inspect(&liar, &["--details"]).await?.ok()?;
    has(
        &text,
        &["linux/arm64 is for linux/amd64 according to its config"],
    );
    Ok(())
}

/// An index costs one request on any registry.
#[tokio::test(flavor = "multi_thread")]
async fn inspecting_an_index_is_one_request() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let server = fixture
        .serve("all", |_, bytes, _| ScriptedResponse::answer(200, bytes))
        .await?;
    let host = server.host();
    let image = format!("docker://{host}/disks/all:1");
    for (more, requests) in [(&[][..], 1), (&["--details"], 1 + 2 * 2)] {
        let before = server.asked().len();
        let flags = [&["--insecure", &host], more].concat();
        inspect(&image, &flags).await?.ok()?;
        assert_eq!(server.asked().len() - before, requests, "{more:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_is_imported_from_a_web_server() -> anyhow::Result<()> {
    let mut fixture = Fixture::new()?;
    let file = fixture.compressed("arm64")?;
    let digest = fixture.wrap("web", &file)?;
    // Blobs of a registry can be fetched as files of a web server, with ETags and ranges.
    let (certificate, key, authority) = certificate()?;
    let options = RegistryOptions {
        password: true,
        tls: Some((certificate, key)),
    };
    let registry = fixture.registry(&["web"], options).await?;
    let url = format!("https://{}/v2/disks/web/blobs/{digest}", registry.host());
    let to = fixture.folder().join("web.raw");
    let ca = fixture.folder().join("ca.pem");
    std::fs::write(&ca, authority)?;
    let authfile = fixture.authfile(&registry)?;
    let trusted = ["--ca", path(&ca)];
    let known = ["--authfile", path(&authfile)];
    has(
        &import(&url, "arm64", &to, &known).await?.refused()?,
        &["RegistryUnavailable", "cannot be reached"],
    );
    has(
        &import(&url, "arm64", &to, &trusted).await?.refused()?,
        &["PullUnauthorized", "--authfile FILE"],
    );
    let run = async |more: &[&str]| {
        let flags = [&trusted, &known, more].concat();
        import(&url, "arm64", &to, &flags).await
    };
    has(
        &run(&["--checksum", "md5:0123"]).await?.refused()?,
        &["checksum \"md5:0123\"", "sha256:DIGITS or sha512:DIGITS"],
    );
    has(
        &run(&["--header", "no header"]).await?.refused()?,
        &["--header", "`Name: value`"],
    );
    let wrong = format!("sha256:{}", "0".repeat(64));
    has(
        &run(&["--checksum", &wrong]).await?.refused()?,
        &["DigestMismatch", &digest],
    );
    fixture.nothing_at(&to)?;

    let checksum = digest.to_uppercase().replace("SHA256", "sha256");
    let flags = ["--header", "X-Reason: test", "--checksum", &checksum];
    let output = run(&[&flags[..], &["-o", "json"]].concat()).await?;
    has(
        &output.err,
        &["\"event\":\"found\"", "\"etag\":", "\"event\":\"imported\""],
    );
    let result = output.json()?;
    assert_eq!(result["digest"], digest);
    assert_eq!(result["source"], url);
    assert_eq!(result["size"], 8 << 20);
    same_bytes(&to, &fixture.raw("arm64"))?;

    // `--header` applies to URLs only, and a URL cannot be inspected.
    let source = fixture.source("all");
    let to = fixture.folder().join("other.raw");
    let refused = import(&source, "arm64", &to, &["--header", "a: b"]).await?;
    has(&refused.refused()?, &["--header apply to https://"]);
    has(&inspect(&url, &[]).await?.refused()?, &["is not an image"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_pulled_from_mirrors() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = fixture
        .registry(&["all"], RegistryOptions::default())
        .await?;
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
        let flags = ["--mirrors", path(mirrors), "-o", "json"];
        let all = inspect(image, &flags).await?.json()?;
        assert_eq!(all["platforms"][1]["digest"], fixture.digest("arm64"));
    }
    let to = fixture.folder().join("mirrored.raw");
    let flags = ["--mirrors", path(&conf)];
    import(image, "amd64", &to, &flags).await?.ok()?;
    same_bytes(&to, &fixture.raw("amd64"))?;

    let wrong = fixture.folder().join("wrong.conf");
    std::fs::write(&wrong, "[registries.search]\n")?;
    has(
        &inspect(image, &["--mirrors", path(&wrong)])
            .await?
            .refused()?,
        &["wrong.conf", "version 1", "expected a registries.conf"],
    );
    let refused = inspect(&fixture.source("all"), &flags).await?.refused()?;
    has(&refused, &["--mirrors applies to registries"]);
    Ok(())
}
