//! Connections through scripted proxies: what is asked, what is refused, and what the errors say.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::legacy::connect::Connection as _;
use platform::AddressPolicy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::Connector;
use crate::ProxySettings;

/// A proxy that gives one answer, and reports the head of the request.
async fn proxy(answer: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    (address, asked)
}

fn connector(proxy: &str, policy: AddressPolicy) -> Connector {
    let settings = ProxySettings::new(proxy, proxy, "").unwrap();
    Connector::new(Arc::new(settings), policy, Duration::from_secs(5))
}

async fn failure(connector: Connector, url: &str) -> String {
    let error = connector.oneshot(url.parse().unwrap()).await.err().unwrap();
    let mut texts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        texts.push(cause.to_string());
        source = cause.source();
    }
    texts.join(": ")
}

#[tokio::test]
async fn https_asks_for_a_tunnel_with_the_credentials() {
    let (address, asked) =
        proxy("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nhello").await;
    let connector = connector(
        &format!("http://user:secret@{address}"),
        AddressPolicy::default(),
    );
    let url = "https://registry.example/v2/".parse().unwrap();
    let mut stream = connector.oneshot(url).await.unwrap();
    let asked = asked.await.unwrap();
    assert!(
        asked.starts_with("CONNECT registry.example:443 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("Host: registry.example:443\r\n"), "{asked}");
    assert!(
        asked.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"),
        "{asked}"
    );
    assert!(!stream.connected().is_proxied());
    // What the target sends first is not lost.
    let mut first = String::new();
    stream.io().read_to_string(&mut first).await.unwrap();
    assert_eq!(first, "hello");
}

#[tokio::test]
async fn plain_http_is_forwarded_without_a_tunnel() {
    let (address, asked) = proxy("").await;
    let connector = connector(&address.to_string(), AddressPolicy::default());
    let url = "http://registry.example/v2/".parse().unwrap();
    let stream = connector.oneshot(url).await.unwrap();
    assert!(stream.connected().is_proxied());
    drop(stream);
    assert_eq!(asked.await.unwrap(), "");
}

#[tokio::test]
async fn refusals_name_the_proxy_the_target_and_the_answer() {
    for (answer, credentials, expected) in [
        ("HTTP/1.1 403 Filtered\r\n\r\n", "", "403 Filtered"),
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "",
            "http://USER:PASSWORD@HOST:PORT",
        ),
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "user:secret@",
            "it rejects the name",
        ),
        ("SSH-2.0-OpenSSH_9\r\n\r\n", "", "its answer is not HTTP"),
        ("", "", "without an answer"),
    ] {
        let (address, _asked) = proxy(answer).await;
        let connector = connector(
            &format!("http://{credentials}{address}"),
            AddressPolicy::default(),
        );
        let error = failure(connector, "https://quay.io/v2/").await;
        let start = format!("the proxy http://{address} does not connect to quay.io:443: ");
        assert!(
            error.starts_with(&start) && error.contains(expected),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn endless_answer_is_refused() {
    let long: &'static str = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(20_000)).leak();
    let (address, _asked) = proxy(long).await;
    let error = failure(
        connector(&address.to_string(), AddressPolicy::default()),
        "https://quay.io/",
    )
    .await;
    assert!(error.contains("longer than 16384 bytes"), "{error}");
}

#[tokio::test]
async fn unreachable_proxy_is_named() {
    // Bound and dropped: no proxy listens there.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let connector = connector(
        &format!("http://user:secret@{address}"),
        AddressPolicy::default(),
    );
    let error = failure(connector, "https://quay.io/v2/").await;
    assert!(
        error.starts_with(&format!("connecting to the proxy http://{address}: ")),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
}

#[tokio::test]
async fn literal_addresses_pass_the_policy_although_the_proxy_connects() {
    for url in [
        "https://169.254.169.254/latest",
        "http://169.254.169.254/latest",
    ] {
        let (address, asked) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
        let error = failure(
            connector(&address.to_string(), AddressPolicy::default()),
            url,
        )
        .await;
        assert!(
            error.contains("169.254.169.254 is a link-local address"),
            "{error}"
        );
        asked.abort();
    }
    // The same for a user, who may connect to whatever the proxy allows.
    let (address, asked) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
    let connector = connector(&address.to_string(), AddressPolicy::unrestricted());
    let url = "https://169.254.169.254/latest".parse().unwrap();
    drop(connector.oneshot(url).await.unwrap());
    assert!(
        asked
            .await
            .unwrap()
            .starts_with("CONNECT 169.254.169.254:443 ")
    );
}

#[tokio::test]
async fn loopback_passes_the_policy_under_any_name() {
    for url in [
        "https://localhost:1/",
        "https://localhost.:1/",
        "http://a.LOCALHOST:1/",
    ] {
        let (address, asked) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
        let connector = connector(&address.to_string(), AddressPolicy::default());
        let error = failure(connector, url).await;
        assert!(error.contains("is a loopback address"), "{url}: {error}");
        asked.abort();
    }
}

#[tokio::test]
async fn socks_proxy_resolves_the_name() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).await.unwrap();
        stream.write_all(&[5, 0]).await.unwrap();
        // Version, CONNECT, reserved, a name of 16 bytes.
        let mut request = [0; 5 + 16 + 2];
        stream.read_exact(&mut request).await.unwrap();
        stream
            .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        request.to_vec()
    });
    let connector = connector(&format!("socks5://{address}"), AddressPolicy::default());
    let url = "https://registry.example/".parse().unwrap();
    let stream = connector.oneshot(url).await.unwrap();
    assert!(!stream.connected().is_proxied());
    let request = asked.await.unwrap();
    assert_eq!(request.get(5..21), Some(b"registry.example".as_slice()));
    assert_eq!(request.get(21..), Some(443_u16.to_be_bytes().as_slice()));
}
