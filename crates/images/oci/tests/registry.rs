//! The client against a real registry, with images pushed by `skopeo`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test may fail as the test does"
)]

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use oci::{
    Cause, Client, Content, Credential, Freshness, Hosts, Image, Keyring, Operation, Registries,
    Roots, Routes, Settings, Tls,
};
use platform::{Document, Index, Manifest, Reference};
use serde_json::json;
use tempfile::TempDir;
use testkit::{Layout, PASSWORD, Registry, RegistryOptions, USERNAME};

const BIG: usize = 3 << 20;

/// Bytes unique to a seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A layout with `all` (an index of three), `one` (a single manifest), and its folder.
fn images(seed: u64) -> anyhow::Result<(TempDir, Layout)> {
    let folder = tempfile::tempdir()?;
    let mut layout = Layout::new(&folder.path().join("layout"))?;
    let mut entries = Vec::new();
    for (at, architecture) in ["amd64", "arm64", "s390x"].into_iter().enumerate() {
        let layer = noise(seed * 10 + at as u64, BIG);
        entries.push(layout.image(architecture, &[&layer], &json!({}))?);
    }
    let index = layout.index(&entries)?;
    layout.name("all", &index)?;
    let one = layout.image("amd64", &[&noise(seed + 77, 1000)], &json!({}))?;
    layout.name("one", &one)?;
    Ok((folder, layout))
}

fn plain(registry: &Registry) -> Client {
    client(Routes::direct().with_plain(registry.host()))
}

fn client(routes: Routes) -> Client {
    let mut settings = Settings::for_user(Roots::none());
    settings.retry.first = Duration::from_millis(5);
    Client::new(settings, routes)
}

fn named(registry: &Registry, name: &str) -> Reference {
    format!("{}/{name}", registry.host()).parse().unwrap()
}

fn index(content: &Content) -> Index {
    match platform::document::read(&content.bytes, content.content_type.as_deref()) {
        Ok(Document::Index(index)) => index,
        other => panic!("no index: {other:?}"),
    }
}

fn manifest(content: &Content) -> Manifest {
    match platform::document::read(&content.bytes, content.content_type.as_deref()) {
        Ok(Document::Manifest(manifest)) => *manifest,
        other => panic!("no manifest: {other:?}"),
    }
}

/// The guarantee to placement: an index costs one request, a single manifest two, cached content none.
#[tokio::test]
async fn requests_are_minimal() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("all"), "disks/fedora:41")?;
    registry.push(&layout.source("one"), "disks/single:1")?;
    let before = registry.requests().len();
    let (client, anonymous) = (plain(&registry), Keyring::anonymous());
    let host = registry.host();

    let all = named(&registry, "disks/fedora:41");
    let content = client.resolve(&all, &anonymous, Freshness::Usual).await?;
    assert_eq!(index(&content).manifests.len(), 3);
    assert_eq!(client.counts().host(&host), 1);

    let one = named(&registry, "disks/single:1");
    let content = client.resolve(&one, &anonymous, Freshness::Usual).await?;
    let config = manifest(&content).config;
    client
        .document(&one, &config.digest, config.size, &anonymous)
        .await?;
    assert_eq!(client.counts().host(&host), 3);

    // Cached: tags for a while, digests for good.
    client.resolve(&all, &anonymous, Freshness::Usual).await?;
    let pinned = one.with_digest(content.digest.clone());
    client.resolve(&pinned, &anonymous, Freshness::Now).await?;
    client
        .document(&one, &config.digest, config.size, &anonymous)
        .await?;
    assert_eq!(
        client.check(&all, &anonymous, Freshness::Usual).await?,
        client
            .resolve(&all, &anonymous, Freshness::Usual)
            .await?
            .digest
    );
    assert_eq!(client.counts().host(&host), 3);

    // The registry saw the same number.
    assert_eq!(registry.requests().len() - before, 3);

    // A freshness check is one request without a body.
    client.resolve(&all, &anonymous, Freshness::Now).await?;
    assert_eq!(client.counts().host(&host), 4);
    assert_eq!(client.counts().of(&host, Operation::Check), 1);
    assert_eq!(
        registry.requests().last().map(String::as_str),
        Some("HEAD /v2/disks/fedora/manifests/41")
    );
    Ok(())
}

#[tokio::test]
async fn a_tag_that_moves_is_followed() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let (client, anonymous) = (plain(&registry), Keyring::anonymous());
    let reference = named(&registry, "disks/fedora:41");
    let (_one, layout) = images(1)?;
    registry.push(&layout.source("all"), "disks/fedora:41")?;
    let old = client
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    let (_two, layout) = images(2)?;
    registry.push(&layout.source("all"), "disks/fedora:41")?;
    let known = client
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    assert_eq!(known.digest, old.digest);
    let checked = client.check(&reference, &anonymous, Freshness::Now).await?;
    let new = client
        .resolve(&reference, &anonymous, Freshness::Within(Duration::ZERO))
        .await?;
    assert_eq!(new.digest, checked);
    assert_ne!(new.digest, old.digest);
    Ok(())
}

#[tokio::test]
async fn concurrent_equal_requests_are_shared() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("all"), "disks/fedora:41")?;
    let (client, anonymous) = (plain(&registry), Keyring::anonymous());
    let reference = named(&registry, "disks/fedora:41");
    let asked = (0..50).map(|_| client.resolve(&reference, &anonymous, Freshness::Now));
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(client.counts().host(&registry.host()), 1);
    Ok(())
}

#[tokio::test]
async fn layers_are_streamed_and_read_from_anywhere() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("all"), "disks/fedora:41")?;
    let client = plain(&registry);
    let source = format!("docker://{}/disks/fedora:41", registry.host()).parse()?;
    let image = Image::open(&source, &client, Arc::default()).await?;
    let content = image.resolve(Freshness::Usual).await?;
    let entry = index(&content).manifests.swap_remove(1);
    let content = image.manifest(&entry.digest).await?;
    let manifest = manifest(&content);
    let layer = manifest.layers.first().context("no layer")?.clone();
    let expected = noise(11, BIG);

    let mut stream = image.blob(&layer, 0)?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend(piece?);
    }
    assert!(bytes == expected);

    let mut reader = image.reader(&layer, 1_000_000, tokio::runtime::Handle::current());
    let read = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
        let mut middle = vec![0; 1000];
        reader.read_exact(&mut middle)?;
        assert_eq!(reader.position(), 1_001_000);
        reader.reopen((BIG - 10) as u64);
        let mut end = Vec::new();
        reader.read_to_end(&mut end)?;
        reader.reopen(BIG as u64);
        assert_eq!(reader.read(&mut [0; 10])?, 0);
        Ok((middle, end))
    });
    let (middle, end) = read.await??;
    assert!(middle == expected[1_000_000..1_001_000]);
    assert!(end == expected[BIG - 10..]);
    let error = image
        .blob(&layer, BIG as u64 + 1)?
        .next()
        .await
        .context("no end")?
        .unwrap_err();
    assert_eq!(error.reason(), "Invalid");
    Ok(())
}

#[tokio::test]
async fn passwords_are_sent_on_challenge_and_isolated() -> anyhow::Result<()> {
    let options = RegistryOptions {
        password: true,
        tls: None,
    };
    let registry = Registry::start_with(options).await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("one"), "private/disk:1")?;
    let client = plain(&registry);
    let (host, reference) = (registry.host(), named(&registry, "private/disk:1"));
    let right = Keyring::for_host(&host, Credential::password(USERNAME, PASSWORD));
    let wrong = Keyring::for_host(&host, Credential::password(USERNAME, "nonsense"));

    let content = client.resolve(&reference, &right, Freshness::Usual).await?;
    // One request is challenged, one has the password; later ones send it at once.
    assert_eq!(client.counts().host(&host), 2);
    let config = manifest(&content).config;
    client
        .document(&reference, &config.digest, config.size, &right)
        .await?;
    assert_eq!(client.counts().host(&host), 3);

    // Cached content is not returned for another credential, by tag or by digest.
    let pinned = reference.with_digest(content.digest.clone());
    for keyring in [&wrong, &Keyring::anonymous()] {
        for reference in [&reference, &pinned] {
            let error = client
                .resolve(reference, keyring, Freshness::Usual)
                .await
                .unwrap_err();
            assert_eq!(error.reason(), "PullUnauthorized");
            assert!(!format!("{error} {error:?}").contains("nonsense"));
        }
        let error = client
            .document(&reference, &config.digest, config.size, keyring)
            .await;
        assert_eq!(error.unwrap_err().reason(), "PullUnauthorized");
    }
    // A failure is cached for a while.
    let before = client.counts().host(&host);
    client
        .resolve(&pinned, &wrong, Freshness::Usual)
        .await
        .unwrap_err();
    assert_eq!(client.counts().host(&host), before);

    // All credentials are tried, in order.
    let mut both = wrong.clone();
    both.add(&host, Credential::password(USERNAME, PASSWORD));
    assert_eq!(
        client
            .resolve(&pinned, &both, Freshness::Usual)
            .await?
            .digest,
        content.digest
    );
    assert_eq!(client.counts().host(&host), before);
    Ok(())
}

#[tokio::test]
async fn missing_image_is_not_found() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("one"), "disks/single:1")?;
    let (client, anonymous) = (plain(&registry), Keyring::anonymous());
    for name in ["disks/single:2", "disks/other:1"] {
        let reference = named(&registry, name);
        let error = client
            .resolve(&reference, &anonymous, Freshness::Usual)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "NotFound");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("_UNKNOWN"), "{text}");
    }
    assert_eq!(client.counts().host(&registry.host()), 2);
    // It is not requested again at once, unless `Freshness::Now` is used.
    let reference = named(&registry, "disks/single:2");
    client
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await
        .unwrap_err();
    assert_eq!(client.counts().host(&registry.host()), 2);
    registry.push(&layout.source("one"), "disks/single:2")?;
    client
        .resolve(&reference, &anonymous, Freshness::Now)
        .await?;
    client
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    Ok(())
}

#[tokio::test]
async fn mirrors_are_tried_before_the_registry() -> anyhow::Result<()> {
    let (mirror, origin) = (Registry::start().await?, Registry::start().await?);
    let (_folder, layout) = images(1)?;
    mirror.push(&layout.source("one"), "cache/disks/both:1")?;
    origin.push(&layout.source("one"), "disks/both:1")?;
    origin.push(&layout.source("one"), "disks/new:1")?;
    let conf = format!(
        "[[registry]]\nprefix='origin.example'\nlocation='{}'\ninsecure=true\n\
         [[registry.mirror]]\nlocation='127.0.0.1:1/dead'\ninsecure=true\n\
         [[registry.mirror]]\nlocation='{}/cache'\ninsecure=true\n",
        origin.host(),
        mirror.host()
    );
    let registries = Registries::read([("registries.conf", conf.as_str())])?;
    let client = client(Routes::direct().with_registries(registries));
    let anonymous = Keyring::anonymous();
    client
        .resolve(
            &"origin.example/disks/both:1".parse()?,
            &anonymous,
            Freshness::Usual,
        )
        .await?;
    assert_eq!(client.counts().of(&origin.host(), Operation::Manifest), 0);
    client
        .resolve(
            &"origin.example/disks/new:1".parse()?,
            &anonymous,
            Freshness::Usual,
        )
        .await?;
    assert!(client.counts().of(&origin.host(), Operation::Manifest) > 0);
    // The error lists failures of earlier endpoints, and the final one first.
    let missing = "origin.example/disks/missing:1".parse()?;
    let error = client
        .resolve(&missing, &anonymous, Freshness::Usual)
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason(), error.place.as_str()),
        ("NotFound", origin.host().as_str())
    );
    assert!(
        matches!(error.earlier.first(), Some((_, Cause::Unreachable(_)))),
        "{error:?}"
    );
    assert!(error.to_string().contains(&mirror.host()), "{error}");
    Ok(())
}

#[tokio::test]
async fn private_cas_are_trusted_where_configured() -> anyhow::Result<()> {
    let key = rcgen::KeyPair::generate()?;
    let mut parameters = rcgen::CertificateParams::new(Vec::<String>::new())?;
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&key)?;
    let issuer = rcgen::Issuer::new(parameters, key);
    let leaf_key = rcgen::KeyPair::generate()?;
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])?
        .signed_by(&leaf_key, &issuer)?;
    let options = RegistryOptions {
        password: false,
        tls: Some((leaf.pem(), leaf_key.serialize_pem())),
    };
    let registry = Registry::start_with(options).await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("one"), "disks/single:1")?;
    let (reference, anonymous) = (named(&registry, "disks/single:1"), Keyring::anonymous());
    let host = registry.host();
    let make = |routes: Routes, authority: Option<&str>| {
        let mut settings = Settings::for_user(Roots::none());
        settings.retry.first = Duration::from_millis(1);
        if let Some(pem) = authority {
            settings
                .tls
                .insert(host.clone(), Tls::authorities(pem.as_bytes()).unwrap());
        }
        Client::new(settings, routes)
    };
    // A CA of another host is not trusted.
    let other = rcgen::generate_simple_self_signed(vec!["x".to_owned()])?;
    let strange = make(Routes::direct(), Some(&other.cert.pem()));
    let error = strange
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    assert!(
        error
            .to_string()
            .contains("; configure its CA certificate, or the server as insecure"),
        "{error}"
    );

    let named_host = make(Routes::direct(), Some(&authority.pem()));
    named_host
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    let insecure = make(Routes::direct().with_insecure(host.clone()), None);
    insecure
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;

    // The same with the folders of containerd and of Docker.
    let folder = tempfile::tempdir()?;
    let own = folder.path().join(format!(
        "127.0.0.1_{}_",
        host.rsplit_once(':').context("port")?.1
    ));
    std::fs::create_dir_all(&own)?;
    std::fs::write(own.join("ca.crt"), authority.pem())?;
    let docker = make(
        Routes::direct().with_hosts(Hosts::load(folder.path())?),
        None,
    );
    docker
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    let toml = format!("[host.'https://{host}']\nca = 'ca.crt'\n");
    std::fs::write(own.join("hosts.toml"), toml)?;
    let containerd = make(
        Routes::direct().with_hosts(Hosts::load(folder.path())?),
        None,
    );
    containerd
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    Ok(())
}

#[tokio::test]
async fn plain_http_is_used_only_where_allowed() -> anyhow::Result<()> {
    let registry = Registry::start().await?;
    let (_folder, layout) = images(1)?;
    registry.push(&layout.source("one"), "disks/single:1")?;
    let (reference, anonymous) = (named(&registry, "disks/single:1"), Keyring::anonymous());
    let before = registry.requests().len();
    // TLS is tried with the system's CA certificates; without any there would be nothing to try.
    let mut settings = Settings::for_user(Roots::of_system());
    settings.retry.first = Duration::from_millis(5);
    let strict = Client::new(settings, Routes::direct());
    let error = strict
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    assert!(
        error
            .to_string()
            .contains("it answers without TLS; configure it as insecure to allow that"),
        "{error}"
    );
    assert_eq!(registry.requests().len(), before);
    let insecure = client(Routes::direct().with_insecure(registry.host()));
    insecure
        .resolve(&reference, &anonymous, Freshness::Usual)
        .await?;
    // That the host has no TLS is cached.
    let asked = insecure.counts().host(&registry.host());
    insecure
        .resolve(&reference, &anonymous, Freshness::Now)
        .await?;
    assert_eq!(insecure.counts().host(&registry.host()), asked + 1);
    Ok(())
}
