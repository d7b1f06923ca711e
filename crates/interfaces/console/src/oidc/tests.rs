use super::*;

#[test]
fn endpoints_need_tls_outside_of_this_machine() {
    for (url, accepted) in [
        ("https://id.example.com", true),
        ("https://id.example.com/realms/a?b=c", true),
        ("http://127.0.0.1:8080/a", true),
        ("http://[::1]:8080/a", true),
        ("http://localhost:8080", true),
        ("http://id.example.com", false),
        ("http://127.0.0.1.example.com", false),
        ("http://192.0.2.1", false),
        ("https://user:password@id.example.com", false),
        ("https://id.example.com#fragment", false),
        ("file:///etc/passwd", false),
        ("javascript:alert(1)", false),
        ("//id.example.com", false),
        ("", false),
    ] {
        assert_eq!(endpoint(url).is_some(), accepted, "{url}");
    }
}

#[test]
fn settings_are_validated() {
    let settings = |issuer: &str, client: &str| ProviderSettings {
        issuer: Issuer::Oidc(issuer.to_owned()),
        client_id: client.to_owned(),
        client_secret: None,
        scopes: Vec::new(),
        authority: None,
    };
    assert!(settings("https://id.example.com", "a").validate().is_ok());
    for (issuer, client, why) in [
        ("https://id.example.com", "", "client ID"),
        ("id.example.com", "a", "id.example.com"),
        ("http://id.example.com", "a", "http only for loopback"),
        ("https://id.example.com?a=b", "a", "without query"),
    ] {
        let error = settings(issuer, client).validate().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn client_secrets_are_in_the_header_unless_only_the_body_is_read() {
    for (methods, body) in [
        (&[][..], false),
        (&["client_secret_basic", "client_secret_post"], false),
        (&["client_secret_post"], true),
        (&["private_key_jwt"], false),
    ] {
        let methods: Vec<String> = methods.iter().map(|&it| it.to_owned()).collect();
        assert_eq!(in_body(&methods), body, "{methods:?}");
    }
}

#[test]
fn errors_of_providers_are_one_short_line() {
    let text = readable("denied\r\n", &"x".repeat(1000));
    assert!(text.starts_with("denied: x") && text.len() == 300, "{text}");
}
