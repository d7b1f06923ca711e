//! Kubeconfigs and certificates that kubectl accepts.

use std::process::Command;

use anyhow::ensure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use egress::ProxySettings;
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::kubeconfig::settle_interaction;
use super::{builder_with, in_kubeconfig};

fn kubeconfig(cluster: &Value, user: &Value) -> Kubeconfig {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{ "name": "far", "cluster": cluster }],
        "users": [{ "name": "admin", "user": user }],
        "contexts": [
            { "name": "one", "context": { "cluster": "far", "user": "admin", "namespace": "apps" } },
            { "name": "two", "context": { "cluster": "gone", "user": "admin" } },
            { "name": "three", "context": { "cluster": "far", "user": "nameless" } },
        ],
    });
    serde_json::from_value(config).unwrap()
}

fn context(name: &str) -> KubeConfigOptions {
    KubeConfigOptions {
        context: Some(name.to_owned()),
        ..KubeConfigOptions::default()
    }
}

#[test]
fn context_names_cluster_user_and_namespace() {
    let cluster = json!({
        "server": "https://api.example:6443",
        "proxy-url": "http://user:secret@bastion:3128",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": true,
    });
    let kubeconfig = kubeconfig(&cluster, &json!({ "token": "t" }));
    let config = in_kubeconfig(&kubeconfig, &KubeConfigOptions::default()).unwrap();
    assert_eq!(config.cluster_url, "https://api.example:6443/");
    assert_eq!(config.default_namespace, "apps");
    assert_eq!(config.tls_server_name.as_deref(), Some("kubernetes"));
    assert!(config.accept_invalid_certs);
    assert!(config.auth_info.token.is_some());
    let proxy = config.proxy_url.unwrap();
    assert_eq!(proxy, "http://user:secret@bastion:3128/");
    // A user that is not there is anonymous.
    let config = in_kubeconfig(&kubeconfig, &context("three")).unwrap();
    assert!(config.auth_info.token.is_none());
    assert_eq!(config.default_namespace, "default");
}

#[test]
fn errors_name_the_field_and_no_password() {
    let error = |cluster: &Value, options: &KubeConfigOptions| {
        let error = in_kubeconfig(&kubeconfig(cluster, &json!({})), options).unwrap_err();
        error.to_string()
    };
    let usual = KubeConfigOptions::default();
    let whole = json!({ "server": "https://api" });
    assert!(error(&whole, &context("two")).contains("gone"));
    assert!(error(&whole, &context("four")).contains("four"));
    let proxied = json!({ "server": "https://api", "proxy-url": "http://u:secret@[::1" });
    let message = error(&proxied, &usual);
    assert!(
        message.contains("proxy-url") && message.contains("far"),
        "{message}"
    );
    assert!(!message.contains("secret"), "{message}");
    let broken = "-----BEGIN CERTIFICATE-----\nMII\n";
    let authority = json!({
        "server": "https://api", "certificate-authority-data": STANDARD.encode(broken),
    });
    assert!(
        error(&authority, &usual).contains("certificate-authority"),
        "{message}"
    );
}

#[test]
fn plugins_ask_the_user_at_a_terminal_only() {
    for (mode, has_terminal, expected) in [
        ("IfAvailable", true, Some("IfAvailable")),
        ("IfAvailable", false, Some("Never")),
        ("Never", true, Some("Never")),
        ("Always", true, Some("Always")),
        ("Always", false, None),
    ] {
        let exec = json!({ "command": "plugin", "interactiveMode": mode });
        let mut exec: ExecConfig = serde_json::from_value(exec).unwrap();
        let settled = settle_interaction(&mut exec, has_terminal);
        if let Some(expected) = expected {
            settled.unwrap();
            assert_eq!(json!(exec.interactive_mode), json!(expected), "{mode}");
        } else {
            let message = settled.unwrap_err().to_string();
            assert!(message.contains("\"plugin\""), "{message}");
        }
    }
}

#[tokio::test]
async fn token_of_a_plugin_is_used() {
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": "from-the-plugin" },
    });
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "bash",
        "args": ["-c", format!("[[ $KUBERNETES_EXEC_INFO == *'\"server\":\"https://api\"'* ]] && echo '{credential}'")],
        "interactiveMode": "IfAvailable", "provideClusterInfo": true,
    } });
    let cluster = json!({ "server": "https://api", "insecure-skip-tls-verify": true });
    let options = KubeConfigOptions::default();
    let config = in_kubeconfig(&kubeconfig(&cluster, &user), &options).unwrap();
    builder_with(config.clone(), ProxySettings::default()).unwrap();
    let mut failing = config;
    let exec = failing.auth_info.exec.as_mut().unwrap();
    exec.args = Some(vec!["-c".to_owned(), "exit 3".to_owned()]);
    assert!(builder_with(failing, ProxySettings::default()).is_err());
}

/// A key and a certificate of version 1, as `openssl x509 -req` writes it without extensions.
fn version_one() -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let folder = tempfile::tempdir()?;
    let script = "set -e
        openssl req -new -newkey rsa:2048 -nodes -keyout key -subj /CN=old -out request
        openssl x509 -req -in request -signkey key -days 1 -out certificate
        openssl x509 -in certificate -noout -text | grep -q 'Version: 1'";
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(folder.path())
        .output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the tests need openssl: {message}");
    let read = |name: &str| std::fs::read(folder.path().join(name));
    Ok((read("certificate")?, read("key")?))
}

#[tokio::test]
async fn client_certificate_of_version_one_is_used() -> anyhow::Result<()> {
    let (certificate, key) = version_one()?;
    let cluster = json!({ "server": "https://api", "insecure-skip-tls-verify": true });
    let user = json!({
        "client-certificate-data": STANDARD.encode(&certificate),
        "client-key-data": STANDARD.encode(&key),
    });
    let options = KubeConfigOptions::default();
    let config = in_kubeconfig(&kubeconfig(&cluster, &user), &options)?;
    let tls = super::tls(&config)?;
    assert!(tls.client_auth_cert_resolver.has_certs());
    builder_with(config, ProxySettings::default())?;
    // Without a key there is no identity.
    let user = json!({ "client-certificate-data": STANDARD.encode(&certificate) });
    let config = in_kubeconfig(&kubeconfig(&cluster, &user), &options)?;
    assert!(builder_with(config, ProxySettings::default()).is_err());
    Ok(())
}
