//! Commands in networks whose only way out is a proxy: a real registry with a private CA and a real API server, under
//! names that nothing but the proxy resolves.

mod installation_support;
#[path = "networks/isolated.rs"]
mod isolated;
#[path = "images_cli_support.rs"]
#[expect(dead_code, reason = "the suites of images use all of it")]
mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use kube::config::Kubeconfig;
use serde_json::json;
use support::{CommandOutput, Fixture, MEDLEY, has, path};
use testkit::{
    PASSWORD, Proxy, Registry, RegistryOptions, TestCluster, USERNAME, certificate_for, same_bytes,
};
use tokio::process::Command;

/// Resolved by the proxy alone.
const REGISTRY: &str = "registry.internal.example";
const API: &str = "api.internal.example";
/// Variables of the environment in which the tests run, which commands must not see.
const VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// Variables and their values.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// Runs a program with these variables, and without those of the user.
async fn run(program: &str, line: &[&str], set: Variables<'_>) -> anyhow::Result<CommandOutput> {
    let mut command = Command::new(program);
    command.args(line).stdin(Stdio::null());
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
        .env_remove("REGISTRY_AUTH_FILE")
        .env_remove("XDG_RUNTIME_DIR")
        .env("HOME", "/nonexistent")
        .envs(set.iter().copied());
    let output = command.output().await;
    Ok(CommandOutput::of(
        &output.with_context(|| format!("running {program}"))?,
    ))
}

/// A registry under a name, with a certificate of a private CA.
struct Site {
    fixture: Fixture,
    registry: Registry,
    ca: PathBuf,
}

impl Site {
    async fn new() -> anyhow::Result<Self> {
        let fixture = Fixture::new()?;
        let (certificate, key, authority) = certificate_for(&[REGISTRY])?;
        let ca = fixture.folder().join("ca.crt");
        std::fs::write(&ca, authority)?;
        let options = RegistryOptions {
            tls: Some((certificate, key)),
            ..RegistryOptions::default()
        };
        let registry = fixture.registry(&["all"], options).await?;
        Ok(Self {
            fixture,
            registry,
            ca,
        })
    }

    fn image(&self) -> String {
        image(&self.registry)
    }

    fn host(&self) -> String {
        name_of(&self.registry)
    }

    fn ca(&self) -> &Path {
        &self.ca
    }
}

/// The name of the image as the proxy's clients write it.
fn image(registry: &Registry) -> String {
    format!("docker://{}/disks/all:1", name_of(registry))
}

fn name_of(registry: &Registry) -> String {
    registry.host().replace("127.0.0.1", REGISTRY)
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_is_reached_through_the_proxy_or_not_at_all() -> anyhow::Result<()> {
    let site = Site::new().await?;
    let proxy = Proxy::start(&[REGISTRY]).await?;
    let image = site.image();
    let line = ["image", "inspect", &image, "--ca", path(site.ca())];
    let refused = run(MEDLEY, &line, &[]).await?.refused()?;
    has(&refused, &[REGISTRY, "resolving"]);

    let url = proxy.url();
    for name in ["HTTPS_PROXY", "https_proxy"] {
        let text = run(MEDLEY, &line, &[(name, &url)]).await?.ok()?;
        has(
            &text,
            &["linux/amd64", "linux/arm64", &site.fixture.digest("arm64")],
        );
    }
    let tunnel = format!("200 CONNECT {}", name_of(&site.registry));
    let requests = proxy.requests();
    assert!(requests.contains(&tunnel), "{requests:?}");

    // Excluded: the direct way, which does not exist here.
    for exclusion in [".internal.example", "*", REGISTRY] {
        let set = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", exclusion)];
        let refused = run(MEDLEY, &line, &set).await?.refused()?;
        has(&refused, &[REGISTRY, "resolving"]);
    }
    // The proxy of http URLs is not that of https ones.
    let refused = run(MEDLEY, &line, &[("HTTP_PROXY", &url)])
        .await?
        .refused()?;
    has(&refused, &[REGISTRY, "resolving"]);
    // The certificate is verified through the tunnel.
    let line = ["image", "inspect", &image];
    let refused = run(MEDLEY, &line, &[("HTTPS_PROXY", &url)])
        .await?
        .refused()?;
    has(&refused, &["UnknownIssuer"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn disk_is_imported_through_the_proxy() -> anyhow::Result<()> {
    let site = Site::new().await?;
    let proxy = Proxy::start(&[REGISTRY]).await?;
    let url = proxy.url();
    let image = site.image();
    let to = site.fixture.folder().join("disk.raw");
    let line = [
        "images",
        "import",
        &image,
        "--arch",
        "arm64",
        "--to",
        path(&to),
    ];
    let line = [&line[..], &["--ca", path(site.ca())]].concat();
    run(MEDLEY, &line, &[("HTTPS_PROXY", &url)]).await?.ok()?;
    same_bytes(&to, &site.fixture.raw("arm64"))?;

    // The program of importer pods, as CDI sets its environment.
    let certificates = site.fixture.folder().join("certificates");
    std::fs::create_dir(&certificates)?;
    std::fs::copy(site.ca(), certificates.join("ca.crt"))?;
    let (to, log) = (
        site.fixture.folder().join("pod.raw"),
        site.fixture.folder().join("log"),
    );
    let line = [
        "importer",
        "--to",
        path(&to),
        "--termination-log",
        path(&log),
    ];
    let line = [&line[..], &["--metrics-address", "127.0.0.1:0"]].concat();
    let set = [
        ("IMPORTER_ENDPOINT", image.as_str()),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", "amd64"),
        ("IMPORTER_CERT_DIR", path(&certificates)),
    ];
    let refused = run(MEDLEY, &line, &set).await?.refused()?;
    has(&refused, &[REGISTRY]);
    let proxied = [&set[..], &[("https_proxy", &url), ("no_proxy", ".svc")]].concat();
    run(MEDLEY, &line, &proxied).await?.ok()?;
    same_bytes(&to, &site.fixture.raw("amd64"))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_is_forwarded() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let registry = fixture
        .registry(&["all"], RegistryOptions::default())
        .await?;
    let proxy = Proxy::start_with_password(&[REGISTRY]).await?;
    let (image, host) = (image(&registry), name_of(&registry));
    let line = ["image", "inspect", &image, "--insecure", &host];
    let url = proxy.url();
    let set = [("HTTPS_PROXY", url.as_str()), ("HTTP_PROXY", &url)];
    let text = run(MEDLEY, &line, &set).await?.ok()?;
    has(&text, &["linux/arm64"]);
    let requests = proxy.requests();
    let forwarded = |it: &String| it.starts_with(&format!("200 GET http://{host}/v2/disks/all/"));
    assert!(requests.iter().any(forwarded), "{requests:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_the_proxy_is_sent_and_never_logged() -> anyhow::Result<()> {
    let site = Site::new().await?;
    let proxy = Proxy::start_with_password(&[REGISTRY]).await?;
    let image = site.image();
    let line = ["image", "inspect", &image, "--ca", path(site.ca())];
    let loud = ("RUST_LOG", "trace");
    let url = proxy.url();
    let output = run(MEDLEY, &line, &[("HTTPS_PROXY", &url), loud]).await?;
    has(&output.out, &["linux/arm64"]);
    silent(&output);

    let url = proxy.bare_url();
    let output = run(MEDLEY, &line, &[("HTTPS_PROXY", &url), loud]).await?;
    has(
        &output.refused()?,
        &[&url, "407", "http://USER:PASSWORD@HOST:PORT"],
    );
    let wrong = proxy.url().replace(PASSWORD, "swordfish");
    let output = run(MEDLEY, &line, &[("HTTPS_PROXY", &wrong), loud]).await?;
    assert!(!output.err.contains("swordfish"), "{}", output.err);
    has(&output.refused()?, &[&url, "407", "rejects"]);
    let broken = format!("ftp://{USERNAME}:{PASSWORD}@127.0.0.1");
    let output = run(MEDLEY, &line, &[("HTTPS_PROXY", &broken), loud]).await?;
    silent(&output);
    has(&output.refused()?, &["HTTPS_PROXY", "\"ftp\""]);
    Ok(())
}

/// Whether the password is nowhere in the output, in clear or encoded.
fn silent(output: &CommandOutput) {
    for text in [&output.out, &output.err] {
        for secret in [PASSWORD, "dGVzdGVyOmh1bnRlcjI"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_helper_is_run_for_its_registry_only() -> anyhow::Result<()> {
    let fixture = Fixture::new()?;
    let options = RegistryOptions {
        password: true,
        tls: None,
    };
    let registry = fixture.registry(&["all"], options).await?;
    let host = registry.host();
    let folder = fixture.folder();
    let (calls, config) = (folder.join("calls"), folder.join("config.json"));
    let script = format!(
        "#!/bin/sh\nread -r registry\necho \"$1 $registry\" >>'{}'\nprintf \
         '{{\"ServerURL\":\"%s\",\"Username\":\"{USERNAME}\",\"Secret\":\"{PASSWORD}\"}}' \"$registry\"\n",
        calls.display()
    );
    let no_credential = "#!/bin/sh\necho 'credentials not found in native keychain'; exit 1\n";
    let broken = "#!/bin/sh\necho 'the keychain is locked'; exit 3\n";
    for (name, text) in [
        ("test", script.as_str()),
        ("none", no_credential),
        ("broken", broken),
    ] {
        let program = folder.join(format!("docker-credential-{name}"));
        std::fs::write(&program, text)?;
        std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    }
    let search = std::env::var("PATH").unwrap_or_default();
    let search = format!("{}:{search}", folder.display());
    let image = format!("docker://{host}/disks/all:1");
    let line = ["image", "inspect", &image, "--insecure", &host];
    let inspect = async |content: serde_json::Value| {
        std::fs::write(&config, content.to_string())?;
        let set = [
            ("PATH", search.as_str()),
            ("REGISTRY_AUTH_FILE", path(&config)),
            ("RUST_LOG", "trace"),
        ];
        let output = run(MEDLEY, &line, &set).await?;
        silent(&output);
        anyhow::Ok(output)
    };

    // As `docker login` with a store writes it.
    let auths = json!({ host.as_str(): {}, "other.example": {} });
    let stored = inspect(json!({ "auths": auths, "credsStore": "test" })).await?;
    has(&stored.ok()?, &["linux/arm64"]);
    let of_registry = json!({ "credHelpers": { host.as_str(): "test", "other.example": "test" } });
    has(&inspect(of_registry).await?.ok()?, &["linux/arm64"]);
    let expected = format!("get {host}\n").repeat(2);
    assert_eq!(std::fs::read_to_string(&calls)?, expected);

    for (helper, message) in [
        ("none", ""),
        ("broken", "the keychain is locked"),
        ("missing", "docker-credential-missing"),
    ] {
        let output = inspect(json!({ "credHelpers": { host.as_str(): helper } })).await?;
        has(&output.refused()?, &["401", message]);
    }
    Ok(())
}

/// A kubeconfig for a cluster under a name that the proxy alone resolves.
fn kubeconfig(original: &Path, to: &Path, proxy: Option<&str>) -> anyhow::Result<()> {
    let mut kubeconfig = Kubeconfig::read_from(original)?;
    for cluster in &mut kubeconfig.clusters {
        let cluster = cluster.cluster.as_mut().context("a cluster")?;
        let server = cluster.server.as_deref().context("a server")?;
        cluster.server = Some(server.replace("127.0.0.1", API));
        cluster.tls_server_name = Some("localhost".to_owned());
        cluster.proxy_url = proxy.map(str::to_owned);
    }
    // JSON is YAML.
    std::fs::write(to, serde_json::to_vec(&kubeconfig)?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_is_reached_as_kubectl_reaches_it() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let proxy = Proxy::start(&[API]).await?;
    let url = proxy.url();
    let host = url.strip_prefix("http://").context("a URL")?;
    let (plain, own) = (served.folder().join("plain"), served.folder().join("own"));
    kubeconfig(&served.kubeconfig, &plain, None)?;
    kubeconfig(&served.kubeconfig, &own, Some(&url))?;
    let cases: [(&Path, Variables<'_>, bool); 10] = [
        (&plain, &[], false),
        (&plain, &[("HTTPS_PROXY", &url)], true),
        (&plain, &[("https_proxy", host)], true),
        (&plain, &[("HTTP_PROXY", &url)], false),
        (
            &plain,
            &[("HTTPS_PROXY", &url), ("NO_PROXY", ".internal.example")],
            false,
        ),
        (
            &plain,
            &[("HTTPS_PROXY", &url), ("NO_PROXY", "internal.example:443")],
            true,
        ),
        // Not the address of the proxy decides, and an empty entry is no error.
        (
            &plain,
            &[("HTTPS_PROXY", &url), ("NO_PROXY", "127.0.0.0/8,.svc,")],
            true,
        ),
        (&own, &[], true),
        // `proxy-url` has no exceptions, and precedence.
        (&own, &[("NO_PROXY", "*")], true),
        (&own, &[("HTTPS_PROXY", "http://127.0.0.1:1")], true),
    ];
    for (kubeconfig, set, reachable) in cases {
        let set = [&[("KUBECONFIG", path(kubeconfig))], set].concat();
        for (program, line) in [
            (
                "kubectl",
                &["get", "namespaces", "--request-timeout=20s"][..],
            ),
            (MEDLEY, &["cpu"]),
        ] {
            let output = run(program, line, &set).await?;
            assert_eq!(
                output.code == Some(0),
                reachable,
                "{program} {set:?}: {}",
                output.err
            );
        }
    }
    let tunnels = proxy.requests();
    assert!(tunnels.iter().all(|it| it.contains(API)), "{tunnels:?}");
    Ok(())
}
