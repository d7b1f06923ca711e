//! The client of a service connects only where its policy allows, regardless of names, redirects, token
//! servers and mirrors.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test may fail as the test does"
)]

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use oci::{
    Client, Credential, Error, Freshness, Headers, Image, Keyring, Registries, Roots, Routes,
    Settings, Tls, WebFile,
};
use platform::{AddressPolicy, AddressRange, Reference, Source};
use rstest::rstest;
use testkit::{FaultyServer, ScriptedResponse};

const MANIFEST: &str =
    r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;

/// A server that must not be reached.
struct Inner {
    listener: TcpListener,
    port: u16,
}

impl Inner {
    /// Listens on loopback of both families where there are two.
    fn listen() -> Self {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"));
        let listener = listener.unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    fn is_untouched(&self) -> bool {
        match self.listener.accept() {
            Ok(_) => false,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

fn settings(allowed: &[AddressRange]) -> Settings {
    let addresses = AddressPolicy::allowing(allowed.iter().copied());
    // Some CA, so that the failure is not a TLS failure.
    let other = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
    let tls = Tls::authorities(other.cert.pem().as_bytes()).unwrap();
    let roots = Roots::none().and(&tls).unwrap();
    let mut settings = Settings::for_service(roots, addresses);
    settings.connect_timeout = Duration::from_secs(2);
    settings.header_timeout = Duration::from_millis(500);
    settings.retry.attempts = 1;
    settings
}

/// The only allowed port.
fn only(server: &FaultyServer) -> [AddressRange; 1] {
    let address: SocketAddr = server.host().parse().unwrap();
    [address.into()]
}

async fn get(client: &Client, url: &str) -> Result<(), Error> {
    let Ok(Source::Web(address)) = url.parse() else {
        panic!("{url}");
    };
    let headers = Headers::read(["X-Tenant: secret"]).unwrap();
    let file = WebFile { address, headers };
    client.look(&file, &Keyring::anonymous()).await.map(drop)
}

async fn resolve(client: &Client, image: &str, keyring: &Keyring) -> Result<(), Error> {
    let reference: Reference = image.parse().unwrap();
    let found = client.resolve(&reference, keyring, Freshness::Now).await;
    found.map(drop)
}

fn assert_refused(error: &Error) {
    assert_eq!(error.reason(), "Refused", "{error}");
    assert!(!error.is_transient(), "{error}");
    let text = error.to_string();
    assert!(text.contains("(--allow-address "), "{text}");
}

/// In every notation of an address.
#[rstest]
#[case::literal("127.0.0.1")]
#[case::another("127.8.9.1")]
#[case::name("localhost")]
#[case::short("127.1")]
#[case::number("2130706433")]
#[case::hexadecimal("0x7f000001")]
#[case::hexadecimal_parts("0x7f.0.0x0.1")]
#[case::octal("0177.0.0.01")]
#[case::unspecified("0.0.0.0")]
#[case::zero("0")]
#[case::loopback_v6("[::1]")]
#[case::long_v6("[0:0:0:0:0:0:0:1]")]
#[case::unspecified_v6("[::]")]
#[case::mapped("[::ffff:127.0.0.1]")]
#[case::mapped_hexadecimal("[::ffff:7f00:1]")]
#[case::compatible("[::127.0.0.1]")]
#[tokio::test]
async fn loopback_is_refused_in_every_spelling(#[case] host: &str) {
    let inner = Inner::listen();
    let client = Client::new(settings(&[]), Routes::direct());
    let url = format!("http://{host}:{}/disk.img", inner.port);
    assert_refused(&get(&client, &url).await.unwrap_err());
    assert!(inner.is_untouched(), "{url}");
}

#[rstest]
#[case("http://169.254.169.254/latest/meta-data/")]
#[case("http://2852039166/latest/meta-data/")]
#[case("http://[fe80::1]/")]
#[case("http://[fd00:ec2::254]/latest/")]
#[case("http://100.100.100.200/latest/")]
#[case("http://[64:ff9b::169.254.169.254]/")]
#[case("http://[::ffff:169.254.169.254]/")]
#[case("http://255.255.255.255/")]
#[case("http://[ff02::1]/")]
#[case("https://169.254.169.254/")]
#[tokio::test]
async fn metadata_and_link_local_are_refused(#[case] url: &str) {
    let client = Client::new(settings(&[]), Routes::direct());
    assert_refused(&get(&client, url).await.unwrap_err());
}

/// An address with a zone is not accepted as a way around.
#[tokio::test]
async fn zones_are_not_accepted() {
    let client = Client::new(settings(&[]), Routes::direct());
    for url in ["http://[fe80::1%25lo]/", "http://[::1%25lo]:80/"] {
        let error = get(&client, url).await.unwrap_err();
        assert_eq!(error.reason(), "Invalid", "{error}");
    }
}

#[tokio::test]
async fn registries_on_loopback_are_refused() {
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let inner = Inner::listen();
        let host = format!("{host}:{}", inner.port);
        let routes = [
            Routes::direct(),
            Routes::direct().with_insecure(host.clone()),
            Routes::direct().with_plain(host.clone()),
        ];
        for routes in routes {
            let client = Client::new(settings(&[]), routes);
            let image = format!("{host}/disks/fedora:41");
            let refused = resolve(&client, &image, &Keyring::anonymous()).await;
            assert_refused(&refused.unwrap_err());
        }
        assert!(inner.is_untouched(), "{host}");
    }
}

#[rstest]
#[case::literal("http://127.0.0.1:PORT/x")]
#[case::another_literal("http://127.0.0.2:PORT/x")]
#[case::name("http://localhost:PORT/x")]
#[case::number("http://2130706433:PORT/x")]
#[case::mapped("http://[::ffff:127.0.0.1]:PORT/x")]
#[case::metadata("http://169.254.169.254:PORT/x")]
#[tokio::test]
async fn redirects_do_not_lead_to_other_inner_addresses(#[case] to: &str) {
    let inner = Inner::listen();
    let to = to.replace("PORT", &inner.port.to_string());
    let server = FaultyServer::start(move |_| ScriptedResponse::redirect(&to))
        .await
        .unwrap();
    let routes = Routes::direct().with_plain(server.host());
    let client = Client::new(settings(&only(&server)), routes);
    let file = format!("http://{}/disk.img", server.host());
    let error = get(&client, &file).await.unwrap_err();
    assert_eq!(error.reason(), "Refused", "{error}");
    let image = format!("{}/disks/fedora:41", server.host());
    let error = resolve(&client, &image, &Keyring::anonymous()).await;
    assert_eq!(error.unwrap_err().reason(), "Refused");
    assert!(inner.is_untouched());
    assert!(!server.asked().is_empty());
}

#[tokio::test]
async fn token_servers_are_not_at_other_inner_addresses() {
    let inner = Inner::listen();
    let realm = format!("http://localhost:{}/token", inner.port);
    let challenge = format!("Bearer realm=\"{realm}\",service=\"x\"");
    let server = FaultyServer::start(move |_| {
        ScriptedResponse::answer(401, "").with("WWW-Authenticate", &challenge)
    })
    .await
    .unwrap();
    let host = server.host();
    let mut settings = settings(&only(&server));
    // Not even one trusted with credentials.
    settings.trusted_realms = vec![format!("localhost:{}", inner.port)];
    let client = Client::new(settings, Routes::direct().with_plain(host.clone()));
    let keyring = Keyring::for_host(&host, Credential::password("me", "hunter2"));
    let error = resolve(&client, &format!("{host}/x:1"), &keyring).await;
    assert_refused(&error.unwrap_err());
    assert!(inner.is_untouched());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn mirrors_are_not_at_other_inner_addresses() {
    let inner = Inner::listen();
    let server = FaultyServer::start(|_| {
        ScriptedResponse::answer(200, MANIFEST)
            .with("Content-Type", "application/vnd.oci.image.index.v1+json")
    })
    .await
    .unwrap();
    let conf = format!(
        "[[registry]]\nlocation = \"{0}\"\ninsecure = true\n[[registry.mirror]]\nlocation = \"localhost:{1}\"\ninsecure = true\n",
        server.host(),
        inner.port
    );
    let routes = Registries::read([("registries.conf", conf.as_str())]).unwrap();
    let routes = Routes::direct().with_registries(routes);
    let client = Client::new(settings(&only(&server)), routes);
    let image = format!("{}/disks/fedora:41", server.host());
    resolve(&client, &image, &Keyring::anonymous())
        .await
        .unwrap();
    assert!(inner.is_untouched());
    assert!(!server.asked().is_empty());
}

#[tokio::test]
async fn allowed_addresses_are_reached_by_any_name() {
    let server = FaultyServer::start(|_| {
        ScriptedResponse::answer(200, MANIFEST)
            .with("Content-Type", "application/vnd.oci.image.index.v1+json")
    })
    .await
    .unwrap();
    let address: SocketAddr = server.host().parse().unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let host = format!("{host}:{}", address.port());
        let routes = Routes::direct().with_plain(host.clone());
        let client = Client::new(settings(&only(&server)), routes);
        let image = format!("{host}/disks/fedora:41");
        resolve(&client, &image, &Keyring::anonymous())
            .await
            .unwrap();
    }
    assert_eq!(server.asked().len(), 2);
}

/// The error does not reveal whether a file exists or what type it has.
#[tokio::test]
async fn services_open_no_local_files() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let client = Client::new(settings(&[]), Routes::direct());
    let keyring = Arc::new(Keyring::anonymous());
    // Opening a FIFO without a writer would block forever.
    for source in [
        format!("oci-archive:{}", pipe.display()),
        "oci-archive:///etc/shadow".to_owned(),
        "oci-archive:///nonexistent".to_owned(),
        format!("oci:{}", folder.path().display()),
        "oci:/nonexistent".to_owned(),
    ] {
        let source: Source = source.parse().unwrap();
        let opened = Image::open(&source, &client, Arc::clone(&keyring)).await;
        let error = opened.unwrap_err();
        assert_eq!(error.reason(), "Refused", "{error}");
        let text = error.to_string();
        assert!(text.contains("is a local file"), "{text}");
        assert!(text.contains(&source.to_string()), "{text}");
    }
}
