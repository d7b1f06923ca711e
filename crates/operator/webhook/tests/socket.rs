//! The HTTPS server of the webhook: invalid input, and renewed certificates.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use rcgen::{CertificateParams, KeyPair};
use rstest::rstest;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use serving::certificates::{Files, SelfSigned};
use testkit::{TestCluster, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use webhook::{Certificates, WebhookServer};

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Sends a request over TLS and reads the whole response; an error if the certificate is not trusted.
async fn ask(check: &WebhookServer, authority: &str, request: &[u8]) -> anyhow::Result<String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(check.address()).await?;
    let name = ServerName::try_from("localhost")?;
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    // The server may respond and close before everything is sent.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// A valid review of an edit.
fn question() -> Value {
    let object = json!({ "metadata": { "name": "a" }, "spec": { "action": "DryRun" } });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "resource": { "group": "advisor.kubevirt.io", "version": "v1alpha1", "resource": "virtplatformconfigs" },
            "name": "a",
            "operation": "UPDATE",
            "userInfo": { "username": "ed" },
            "object": object,
            "oldObject": object,
        },
    })
}

#[rstest]
#[case::nothing("/request", Value::Null)]
#[case::no_user("/request/userInfo", json!(7))]
#[case::nobody("/request/userInfo/username", json!(""))]
#[case::no_old("/request/oldObject", Value::Null)]
#[case::no_object("/request/object", json!([]))]
#[case::no_spec("/request/object/spec", json!("text"))]
#[case::no_metadata("/request/object/metadata", json!(1))]
#[case::no_annotations("/request/object/metadata", json!({"annotations": [1]}))]
#[case::odd_annotation("/request/object/metadata", json!({"annotations": {"a": 1}}))]
#[case::another_kind("/request/resource/resource", json!("pods"))]
#[case::another_operation("/request/operation", json!("DELETE"))]
#[case::another_version("/apiVersion", json!("admission.k8s.io/v1beta1"))]
#[case::another_review("/kind", json!("TokenReview"))]
#[tokio::test]
async fn invalid_reviews_are_denied(
    #[case] place: &str,
    #[case] value: Value,
) -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = cluster.client();
    let sound = webhook::answer(&client, question().to_string().as_bytes(), Timestamp::now()).await;
    assert_eq!(sound["response"]["allowed"], true, "{sound}");
    let mut odd = question();
    *odd.pointer_mut(place).context("a place")? = value;
    let answer = webhook::answer(&client, odd.to_string().as_bytes(), Timestamp::now()).await;
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["allowed"], false, "{answer}");
    let message = answer["response"]["status"]["message"].as_str();
    assert!(
        message.is_some_and(|message| message.len() > 10),
        "{answer}"
    );
    Ok(())
}

#[tokio::test]
async fn undecodable_field_is_named() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let mut odd = question();
    odd["request"]["resource"] =
        json!({ "group": "hco.kubevirt.io", "version": "v1", "resource": "hyperconvergeds" });
    // In the format of v1beta1; in v1 it is a list.
    odd["request"]["object"]["spec"] =
        json!({ "featureGates": { "enableMultiArchBootImageImport": true } });
    let odd = odd.to_string();
    let answer = webhook::answer(&cluster.client(), odd.as_bytes(), Timestamp::now()).await;
    let message = answer["response"]["status"]["message"].as_str();
    let message = message.unwrap_or_default();
    assert!(
        message.contains("spec.featureGates: invalid type"),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn server_survives_invalid_input() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let own = SelfSigned::new("medley-webhook", &["localhost".to_owned()])?;
    let authority = own.authority().to_owned();
    let check = webhook::serve(cluster.client(), any_port(), Certificates::SelfSigned(own)).await?;
    let large = vec![b' '; (3 << 20) + 1];
    let deep = "[".repeat(100_000);
    for (request, expected) in [
        (request("GET", "/healthz", b""), "HTTP/1.1 200"),
        (request("GET", "/readyz", b""), "HTTP/1.1 200"),
        (request("GET", "/admit", b""), "HTTP/1.1 405"),
        (request("POST", "/elsewhere", b"{}"), "HTTP/1.1 404"),
        (request("POST", "/admit", &large), "HTTP/1.1 413"),
        (request("POST", "/admit", b""), "\"allowed\":false"),
        (request("POST", "/admit", b"\xff\xfe"), "\"code\":400"),
        (request("POST", "/admit", deep.as_bytes()), "\"code\":400"),
        (request("POST", "/admit", b"null"), "\"code\":400"),
        (b"no request at all\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        (
            request("POST", "/admit", question().to_string().as_bytes()),
            "\"allowed\":true",
        ),
    ] {
        let answer = ask(&check, &authority, &request).await?;
        assert!(answer.contains(expected), "{expected} in {answer}");
    }
    check.stop().await;
    Ok(())
}

/// Writes a self-signed certificate and its key.
fn write_pair(folder: &Path) -> anyhow::Result<String> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
    std::fs::write(folder.join("tls.crt"), certificate.pem())?;
    std::fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(certificate.pem())
}

#[tokio::test]
async fn certificate_files_are_reloaded() -> anyhow::Result<()> {
    let cluster = TestCluster::embedded().await?;
    let folder = tempfile::tempdir()?;
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
    let open = || Files::open(&certificate, &key, Duration::from_millis(20));
    let absent = open().unwrap_err().to_string();
    assert!(absent.contains("tls.crt"), "{absent}");

    let first = write_pair(folder.path())?;
    let files = Certificates::Files(open()?);
    let check = webhook::serve(cluster.client(), any_port(), files).await?;
    let health = request("GET", "/healthz", b"");
    ask(&check, &first, &health).await?;
    // An incomplete pair is ignored, and the previous one stays.
    std::fs::write(folder.path().join("tls.key"), "half")?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    ask(&check, &first, &health).await?;
    let second = write_pair(folder.path())?;
    wait_until("the new certificate is used", WAIT_TIMEOUT, || async {
        Ok(ask(&check, &second, &health).await.ok())
    })
    .await?;
    assert!(ask(&check, &first, &health).await.is_err());
    Ok(())
}
