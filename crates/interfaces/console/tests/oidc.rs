//! Signing in at an identity provider: a stand-in of the provider, and an API server that accepts its
//! latest ID token for a user.

#[path = "oidc/provider.rs"]
mod provider;
#[path = "http/world.rs"]
#[allow(dead_code, reason = "other suites use the rest of it")]
mod world;

use anyhow::Context as _;
use console::{Issuer, Options, ProviderSettings, SessionKeys};
use governance::roles::VIEWER;
use http::StatusCode;
use http::header::SET_COOKIE;
use kube::Config;
use serde_json::{Value, json};
use serving::certificates::{SelfSigned, Tls};

use provider::{ApiServer, CLIENT_ID, Provider};
use world::{Answer, Browser, ConsoleFixture, Replica};

struct OidcFixture {
    _cluster: ConsoleFixture,
    provider: Provider,
    _api: ApiServer,
    options: Options,
}

impl OidcFixture {
    async fn start() -> anyhow::Result<Self> {
        let cluster = ConsoleFixture::start().await?;
        cluster.browser("oscar", &[VIEWER]).await?;
        let token = cluster.token_of("oscar").await?;
        let provider = Provider::start().await?;
        let mut options = cluster.options().await?;
        let api = ApiServer::start(&options.cluster, &token, &provider).await?;
        options.cluster = Config::new(api.url.parse()?);
        options.keys = SessionKeys::of_process();
        options.provider = Some(provider.settings());
        Ok(Self {
            _cluster: cluster,
            provider,
            _api: api,
            options,
        })
    }

    async fn replica(&self) -> anyhow::Result<Replica> {
        Replica::start(self.options.clone(), None).await
    }

    /// Begins a sign-in and has the provider approve it: the path and query that it sends the browser
    /// back to.
    async fn approved(&self, browser: &mut Browser, next: &str) -> anyhow::Result<String> {
        let path = format!("/sign-in/provider?next={next}");
        let answer = browser.get(&path).await?;
        anyhow::ensure!(answer.status == StatusCode::SEE_OTHER, "{answer:?}");
        let there = answer.location().strip_prefix(&self.provider.url);
        let there = there.context("a URL of the provider")?;
        let answer = Browser::new(self.provider.address).get(there).await?;
        let (_, rest) = answer.location().split_once("://").unwrap_or_default();
        let (_, path) = rest.split_once('/').unwrap_or_default();
        Ok(format!("/{path}"))
    }
}

fn has_session(answer: &Answer) -> bool {
    let mut cookies = answer.headers.get_all(SET_COOKIE).into_iter();
    cookies.any(|it| {
        let it = it.to_str().unwrap_or_default();
        it.starts_with("medley-session-") && !it.contains("Max-Age=0;")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn user_signs_in_at_the_provider_and_stays_signed_in() -> anyhow::Result<()> {
    let fixture = OidcFixture::start().await?;
    let (one, other) = (fixture.replica().await?, fixture.replica().await?);
    let mut browser = Browser::balanced(&[one.address, other.address]);
    let page = browser.page("/sign-in?next=/governance").await?;
    assert!(
        page.contains("href=\"/sign-in/provider?next=/governance\""),
        "{page}"
    );
    assert!(page.contains("Sign in with 127.0.0.1"), "{page}");

    // One replica begins, and the other finishes.
    let callback = fixture.approved(&mut browser, "/governance").await?;
    let answer = browser.get(&callback).await?;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert!(has_session(&answer));
    // Not a redirect: browsers would not send a strict cookie within the provider's navigation.
    let refresh = "http-equiv=\"refresh\" content=\"0;url=/governance\"";
    assert!(answer.body.contains(refresh), "{}", answer.body);
    let token = fixture.provider.latest();
    for cookie in answer.headers.get_all(SET_COOKIE) {
        assert!(!cookie.to_str()?.contains(&token));
    }
    assert!(
        browser
            .page("/governance")
            .await?
            .contains("medley-system:oscar")
    );

    // The code is used, and so is the state.
    let answer = browser.get(&callback).await?;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");

    // Tokens that are about to expire are renewed, and the API server sees the new one.
    fixture.provider.set_lifetime(30);
    let callback = fixture.approved(&mut browser, "/").await?;
    assert_eq!(browser.get(&callback).await?.status, StatusCode::OK);
    let before = fixture.provider.latest();
    fixture.provider.set_lifetime(3600);
    assert!(
        browser
            .page("/governance")
            .await?
            .contains("medley-system:oscar")
    );
    let renewed = fixture.provider.latest();
    assert_ne!(before, renewed);
    // The other replica gets it from the cookie, and renews nothing.
    assert!(
        browser
            .page("/governance")
            .await?
            .contains("medley-system:oscar")
    );
    assert_eq!(fixture.provider.latest(), renewed);

    // A user whom the provider signs out is signed out here when the token expires.
    fixture.provider.set_lifetime(30);
    let callback = fixture.approved(&mut browser, "/").await?;
    browser.get(&callback).await?;
    fixture.provider.refuse_refresh();
    assert_eq!(browser.get("/").await?.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/").await?.status, StatusCode::SEE_OTHER);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn user_signs_in_at_the_oauth_server_of_openshift() -> anyhow::Result<()> {
    let mut fixture = OidcFixture::start().await?;
    fixture.options.provider = Some(ProviderSettings {
        issuer: Issuer::Openshift,
        scopes: vec!["user:full".to_owned()],
        ..fixture.provider.settings()
    });
    let console = fixture.replica().await?;
    let mut browser = Browser::new(console.address);
    assert!(
        browser
            .page("/sign-in")
            .await?
            .contains("Sign in with OpenShift")
    );
    let callback = fixture.approved(&mut browser, "/governance").await?;
    let answer = browser.get(&callback).await?;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert!(
        browser
            .page("/governance")
            .await?
            .contains("medley-system:oscar")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_were_not_asked_for_begin_no_session() -> anyhow::Result<()> {
    let fixture = OidcFixture::start().await?;
    let console = fixture.replica().await?;
    let new = || Browser::new(console.address);

    // An attacker's answer in a victim's browser.
    let callback = fixture.approved(&mut new(), "/").await?;
    let answer = new().get(&callback).await?;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let mut victim = new();
    fixture.approved(&mut victim, "/").await?;
    let answer = victim.get(&callback).await?;
    assert_eq!(
        answer.status,
        StatusCode::BAD_REQUEST,
        "a state of another browser"
    );
    assert!(!has_session(&answer));

    for (change, why) in [
        ("&iss=https://evil.example", "an answer of another provider"),
        (
            "&error=access_denied&error_description=%3Cb%3Eno%3C/b%3E",
            "denied",
        ),
        ("&code=x", "two codes"),
    ] {
        let mut browser = new();
        let callback = fixture.approved(&mut browser, "/").await?;
        let answer = browser.get(&format!("{callback}{change}")).await?;
        assert!(
            !has_session(&answer) && !answer.status.is_success(),
            "{why}: {answer:?}"
        );
        assert!(!answer.body.contains("<b>no</b>"), "{}", answer.body);
    }

    // Redirects stay on the console.
    let mut browser = new();
    let callback = fixture.approved(&mut browser, "//evil.example").await?;
    let answer = browser.get(&callback).await?;
    assert!(
        answer.body.contains("content=\"0;url=/\""),
        "{}",
        answer.body
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_begin_no_session() -> anyhow::Result<()> {
    let fixture = OidcFixture::start().await?;
    for (claims, why) in [
        (json!({ "nonce": "another" }), "nonce"),
        (json!({ "aud": "another" }), "aud"),
        (json!({ "aud": [CLIENT_ID, "another"] }), "azp"),
        (json!({ "iss": "https://evil.example" }), "iss"),
        (json!({ "exp": 1 }), "exp"),
    ] {
        // A console of its own: failures are limited by address.
        let console = fixture.replica().await?;
        let mut browser = Browser::new(console.address);
        fixture.provider.set_claims(claims);
        let callback = fixture.approved(&mut browser, "/").await?;
        let answer = browser.get(&callback).await?;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{why}: {answer:?}");
        assert!(!has_session(&answer), "{why}");
        assert!(
            answer.body.contains(&format!("claim {why}")),
            "{}",
            answer.body
        );
        assert!(!answer.body.contains(&fixture.provider.latest()), "{why}");
    }
    fixture.provider.set_claims(Value::Null);
    let console = fixture.replica().await?;
    // A key that the provider has not published.
    fixture.provider.rotate_key(false)?;
    let mut browser = Browser::new(console.address);
    let callback = fixture.approved(&mut browser, "/").await?;
    let answer = browser.get(&callback).await?;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{answer:?}");
    // A token that the API server does not accept.
    fixture.provider.rotate_key(true)?;
    fixture.provider.forget_tokens();
    let console = fixture.replica().await?;
    let mut browser = Browser::new(console.address);
    let callback = fixture.approved(&mut browser, "/").await?;
    let answer = browser.get(&callback).await?;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{answer:?}");
    assert!(
        answer.body.contains("same issuer and client ID"),
        "{}",
        answer.body
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_is_verified_with_its_ca() -> anyhow::Result<()> {
    let fixture = OidcFixture::start().await?;
    let own = SelfSigned::new("provider-test", &["localhost".to_owned()])?;
    let provider = Provider::start_with(Some(Tls::new(own.pair())?.of_listener())).await?;
    let file = std::env::temp_dir().join(format!("provider-ca-{}", provider.address.port()));
    std::fs::write(&file, own.authority())?;
    for (authority, code) in [
        (None, StatusCode::BAD_GATEWAY),
        (Some(file.clone()), StatusCode::SEE_OTHER),
        (Some("/nowhere/ca.crt".into()), StatusCode::BAD_GATEWAY),
    ] {
        let mut options = fixture.options.clone();
        options.provider = Some(ProviderSettings {
            authority,
            ..provider.settings()
        });
        let console = Replica::start(options, None).await?;
        let answer = Browser::new(console.address)
            .get("/sign-in/provider")
            .await?;
        assert_eq!(answer.status, code, "{answer:?}");
        if code == StatusCode::SEE_OTHER {
            let there = format!("{}/authorize?", provider.url);
            assert!(answer.location().starts_with(&there), "{answer:?}");
        } else {
            assert!(answer.body.contains("cannot be "), "{}", answer.body);
        }
    }
    std::fs::remove_file(&file)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn misconfigured_providers_are_named() -> anyhow::Result<()> {
    let fixture = OidcFixture::start().await?;
    let settings = fixture.provider.settings();
    let Issuer::Oidc(issuer) = &settings.issuer else {
        panic!("{settings:?}");
    };
    for (issuer, secret, why) in [
        (format!("{issuer}/elsewhere"), None, "answered 404"),
        (format!("{issuer}/"), None, "is the document of the issuer"),
        ("http://127.0.0.1:1".to_owned(), None, "cannot be reached"),
        (
            issuer.clone(),
            Some("/nowhere/secret"),
            "/nowhere/secret cannot be read",
        ),
    ] {
        let mut options = fixture.options.clone();
        options.provider = Some(ProviderSettings {
            issuer: Issuer::Oidc(issuer),
            client_secret: secret
                .map(Into::into)
                .or_else(|| settings.client_secret.clone()),
            ..settings.clone()
        });
        let console = Replica::start(options, None).await?;
        let mut browser = Browser::new(console.address);
        let mut answer = browser.get("/sign-in/provider").await?;
        if answer.status == StatusCode::SEE_OTHER {
            let callback = fixture.approved(&mut browser, "/").await?;
            answer = browser.get(&callback).await?;
        }
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{answer:?}");
        assert!(answer.body.contains(why), "{why}: {}", answer.body);
    }
    // Without a provider there is nothing to sign in at.
    let mut options = fixture.options.clone();
    options.provider = None;
    let console = Replica::start(options, None).await?;
    let mut browser = Browser::new(console.address);
    for path in ["/sign-in/provider", "/sign-in/callback?code=a&state=b"] {
        assert_eq!(browser.get(path).await?.status, StatusCode::NOT_FOUND);
    }
    assert!(!browser.page("/sign-in").await?.contains("Sign in with"));
    Ok(())
}
