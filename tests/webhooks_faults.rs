//! Faulty webhooks.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster, WebhookServer};

use crate::allow_all;
use crate::webhooks_support::{Hooks, RULES_MAPS, ask, map};

/// A faulty webhook, and the expected error message. `{url}` is its address.
struct Fault {
    name: &'static str,
    /// Its response; `None` for a webhook at another address.
    reply: Option<Reply>,
    message: &'static str,
    /// Not a failed call: the request is denied with this code even with failurePolicy Ignore.
    always: Option<u16>,
    /// Applies to mutating webhooks only.
    mutating_only: bool,
}

fn fault(name: &'static str, reply: Reply, message: &'static str) -> Fault {
    Fault {
        name,
        reply: Some(reply),
        message,
        always: None,
        mutating_only: false,
    }
}

fn patch_fault(name: &'static str, reply: Reply, message: &'static str) -> Fault {
    Fault {
        mutating_only: true,
        ..fault(name, reply, message)
    }
}

fn elsewhere(name: &'static str, message: &'static str) -> Fault {
    Fault {
        reply: None,
        ..fault(name, Reply::Hang, message)
    }
}

fn faults() -> Vec<Fault> {
    let response = |response: Value| Reply::Response(response);
    let refused = |code, fault| Fault {
        always: Some(code),
        ..fault
    };
    vec![
        elsewhere(
            "down",
            "failed to call webhook: Post \"{url}?timeout=1s\": dial tcp {host}: connect: connection refused",
        ),
        elsewhere(
            "stranger",
            "failed to call webhook: Post \"{url}?timeout=1s\": tls: failed to verify certificate: \
             x509: certificate signed by unknown authority*",
        ),
        elsewhere(
            "impostor",
            "failed to call webhook: Post \"{url}?timeout=1s\": tls: failed to verify certificate: \
             x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        fault(
            "slow",
            Reply::Hang,
            "failed to call webhook: Post \"{url}?timeout=1s\": context deadline exceeded",
        ),
        fault(
            "stuck",
            Reply::HangAfterHeaders,
            "failed to call webhook: unexpected error when reading response body. Please retry. \
             Original error: context deadline exceeded",
        ),
        fault(
            "dropping",
            Reply::Drop,
            "failed to call webhook: unexpected error when reading response body. Please retry. \
             Original error: unexpected EOF",
        ),
        fault(
            "closing",
            Reply::Close,
            "failed to call webhook: Post \"{url}?timeout=1s\": EOF",
        ),
        fault(
            "garbage",
            Reply::Body(b"garbage".to_vec()),
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot \
             unmarshal string into Go value of type struct { APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ),
        fault(
            "cut",
            Reply::Body(b"{\"kind\":\"AdmissionReview\"".to_vec()),
            "failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input",
        ),
        fault(
            "silent",
            Reply::Body(Vec::new()),
            "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
        ),
        fault(
            "broken",
            Reply::Code(500, "text/plain", "out of order"),
            "failed to call webhook: an error on the server (\"out of order\") has prevented the \
             request from succeeding",
        ),
        fault(
            "nowhere",
            Reply::Code(404, "application/json", "{}"),
            "failed to call webhook: the server could not find the requested resource",
        ),
        fault(
            "absent",
            Reply::Body(b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}".to_vec()),
            "received invalid webhook response: webhook response was absent",
        ),
        fault(
            "older",
            Reply::Body(b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\",\"response\":{\"allowed\":true}}".to_vec()),
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        fault(
            "other",
            response(json!({"allowed": true, "uid": "x"})),
            "received invalid webhook response: expected response.uid=\"*\", got \"x\"",
        ),
        fault(
            "circling",
            Reply::Redirect(307, "/circling"),
            "failed to call webhook: Post \"/circling\": stopped after 10 redirects",
        ),
        patch_fault(
            "untyped",
            response(json!({"allowed": true, "patch": "W10="})),
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        patch_fault(
            "patchless",
            response(json!({"allowed": true, "patchType": "JSONPatch"})),
            "received invalid webhook response: webhook returned response.patchType but not response.patch",
        ),
        patch_fault(
            "encoded",
            response(json!({"allowed": true, "patchType": "JSONPatch", "patch": "[]"})),
            "failed to call webhook: illegal base64 data at input byte 0",
        ),
        patch_fault(
            "strange",
            response(json!({"allowed": true, "patchType": "Merge", "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2RhdGEifV0="})),
            "unsupported patch type \"Merge\"",
        ),
        patch_fault(
            "unpatch",
            Reply::patch(&json!({"not": "a list"})),
            "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        refused(
            500,
            patch_fault(
                "misses",
                Reply::patch(&json!([{"op": "remove", "path": "/nope"}])),
                "Internal error occurred: error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
            ),
        ),
        refused(
            500,
            patch_fault(
                "mistypes",
                Reply::patch(&json!([{"op": "add", "path": "/data", "value": "text"}])),
                "Internal error occurred: json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
            ),
        ),
        refused(
            422,
            patch_fault(
                "spoils",
                Reply::patch(&json!([{"op": "add", "path": "/data/bad key", "value": "v"}])),
                "ConfigMap \"spoils\" is invalid: data[bad key]: Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
        ),
    ]
}

/// `*` matches anything.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => text.starts_with(start) && text.ends_with(end),
    }
}

#[tokio::test]
async fn faulty_responses_follow_the_failure_policy() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::with_names(&["127.0.0.1"], false, |path, _| {
        let name = path.trim_start_matches('/');
        let found = faults().into_iter().find(|fault| fault.name == name);
        found
            .and_then(|fault| fault.reply)
            .unwrap_or_else(Reply::allow)
    })
    .await?;
    let impostor = WebhookServer::with_names(&["impostor.example.com"], false, allow_all).await?;
    let down = testkit::free_port()?;
    let hooks = Hooks::new(&cluster, &server, "faults").await?;
    let client = |name: &str| match name {
        "down" => {
            json!({"url": format!("https://127.0.0.1:{down}/down"), "caBundle": server.ca_bundle()})
        }
        "stranger" => json!({"url": server.url("/stranger"), "caBundle": impostor.ca_bundle()}),
        "impostor" => impostor.client_config("/impostor"),
        name => server.client_config(&format!("/{name}")),
    };
    let mut wrong = Vec::new();
    for sort in ["mutating", "validating"] {
        let all: Vec<Fault> = faults()
            .into_iter()
            .filter(|fault| sort == "mutating" || !fault.mutating_only)
            .collect();
        for policy in ["Fail", "Ignore"] {
            let made = all
                .iter()
                .map(|fault| {
                    let more = json!({
                        "failurePolicy": policy,
                        "timeoutSeconds": 1,
                        "objectSelector": {"matchLabels": {"fault": fault.name}},
                    });
                    hooks.hook_at(fault.name, RULES_MAPS, client(fault.name), more)
                })
                .collect();
            match sort {
                "mutating" => hooks.mutating("faults", made).await?,
                _ => hooks.validating("faults", made).await?,
            }
            for fault in &all {
                let name = fault.name;
                let mut object = map(name, json!({"k": "v"}));
                object["metadata"]["labels"] = json!({"fault": name});
                let (code, body, _) = ask(
                    &cluster,
                    "POST",
                    &format!("{}?dryRun=All", hooks.maps()),
                    &object,
                )
                .await?;
                let url = client(name)["url"].as_str().unwrap().to_owned();
                let host = url.split('/').nth(2).unwrap().to_owned();
                let message = fault
                    .message
                    .replace("{url}", &url)
                    .replace("{host}", &host);
                let (expected_code, expected) = match (fault.always, policy) {
                    (Some(code), _) => (code, message),
                    (None, "Fail") => {
                        let why =
                            format!("failed calling webhook \"{name}.example.com\": {message}");
                        (500, format!("Internal error occurred: {why}"))
                    }
                    _ => (201, String::new()),
                };
                let got = body["message"].as_str().unwrap_or_default();
                if code != expected_code || !like(&expected, got) {
                    wrong.push(format!(
                        "{sort} {policy} {name}: {code}\n  expected {expected}\n  got      {got}"
                    ));
                }
            }
            hooks.remove("faults").await?;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn endless_response_is_not_read() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|_, request| {
        let mut body = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": request["uid"], "allowed": true},
        })
        .to_string()
        .into_bytes();
        body.resize((16 << 20) + 1, b' ');
        Reply::Body(body)
    })
    .await?;
    let hooks = Hooks::new(&cluster, &server, "huge").await?;
    let more = json!({"timeoutSeconds": 30});
    hooks
        .validating("huge", vec![hooks.hook("huge", RULES_MAPS, more)])
        .await?;
    let (code, body, _) = ask(&cluster, "POST", &hooks.maps(), &map("a", json!({}))).await?;
    if cluster.is_genuine() {
        // It has no limit.
        assert_eq!(code, 201, "{body}");
    } else {
        assert_eq!(code, 500, "{body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.contains("longer than 16777216 bytes"), "{message}");
    }
    Ok(())
}
