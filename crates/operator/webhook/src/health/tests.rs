use http_body_util::BodyExt as _;
use rstest::rstest;

use super::*;

async fn ask(health: &Health, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(()).unwrap();
    let (parts, body) = health.answer(&request).unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn webhook_without_certificate_is_live_but_not_ready() {
    let health = Health::default();
    for path in ["/livez", "/healthz"] {
        assert_eq!(ask(&health, path).await, (StatusCode::OK, "ok".to_owned()));
    }
    let (code, text) = ask(&health, "/readyz?verbose").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    for line in [
        "[-]certificate failed: the serving certificate is not loaded",
        "[+]shutdown ok",
        "readyz check failed",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} in {text}");
    }
}

#[rstest]
#[case(
    Registration::Unmanaged,
    "[+]registration ok: not managed by this process"
)]
#[case(Registration::Current, "[+]registration ok")]
#[case(
    Registration::Pending,
    "[-]registration failed: the webhook is not registered yet"
)]
#[case(Registration::Wrong("odd".to_owned()), "[-]registration failed: odd")]
#[tokio::test]
async fn readyz_reports_registration(#[case] registration: Registration, #[case] expected: &str) {
    let health = Health::default();
    health.register(registration);
    let (_, text) = ask(&health, "/readyz?verbose").await;
    assert!(
        text.lines().any(|it| it == expected),
        "{expected} in {text}"
    );
}
