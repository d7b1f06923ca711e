//! Admission webhooks: which ones are called with which review, and the effect of their responses. On both servers.
#[cfg(test)]
mod webhooks_certificates;
#[cfg(test)]
mod webhooks_faults;
#[cfg(test)]
mod webhooks_plugins;
#[cfg(test)]
mod webhooks_policies;
#[cfg(test)]
mod webhooks_rules;
#[cfg(test)]
mod webhooks_support;

use serde_json::{Value, json};
use testkit::{Reply, TestCluster, WebhookServer};
use webhooks_support::{Hooks, RULES_MAPS, ask, map, warnings};

pub(crate) fn allow_all(_: &str, _: &Value) -> Reply {
    Reply::allow()
}

#[tokio::test]
async fn admission_review_has_the_user_and_the_object() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "question").await?;
    hooks
        .validating("question", vec![hooks.hook("look", RULES_MAPS, json!({}))])
        .await?;
    let maps = hooks.maps();
    let path = format!("{maps}?fieldManager=me&fieldValidation=Strict");
    let (code, body, _) = ask(&cluster, "POST", &path, &map("a", json!({"k": "v"}))).await?;
    assert_eq!(code, 201, "{body}");
    let patch = json!({"data": {"k": "w"}});
    let (code, body, _) = ask(&cluster, "PATCH", &format!("{maps}/a?dryRun=All"), &patch).await?;
    assert_eq!(code, 200, "{body}");
    let (code, body, _) = ask(&cluster, "DELETE", &format!("{maps}/a"), &Value::Null).await?;
    assert_eq!(code, 200, "{body}");

    let questions = server.questions("/look");
    let operations: Vec<&str> = questions
        .iter()
        .map(|q| q.review["request"]["operation"].as_str().unwrap())
        .collect();
    assert_eq!(operations, ["CREATE", "UPDATE", "DELETE"]);
    let (create, update, delete) = (&questions[0], &questions[1], &questions[2]);
    assert_eq!(create.uri, "/look?timeout=5s");
    assert_eq!(create.agent, "kube-apiserver-admission");
    assert_eq!(create.protocol, "HTTP/2.0");
    assert_eq!(create.review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(create.review["kind"], "AdmissionReview");
    let request = &create.review["request"];
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for (field, expected) in [
        ("kind", &kind),
        ("requestKind", &kind),
        ("resource", &resource),
        ("requestResource", &resource),
        ("name", &json!("a")),
        ("namespace", &json!(hooks.namespace)),
        ("dryRun", &json!(false)),
        ("oldObject", &Value::Null),
        (
            "options",
            &json!({
                "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "me", "fieldValidation": "Strict",
            }),
        ),
    ] {
        assert_eq!(&request[field], expected, "{field}");
    }
    assert_eq!(request["userInfo"]["username"], "admin");
    let object = &request["object"];
    assert_eq!(object["data"], json!({"k": "v"}));
    assert!(object["metadata"]["uid"].is_string(), "{object}");
    assert!(object["metadata"]["managedFields"].is_array(), "{object}");
    assert!(request.get("subResource").is_none(), "{request}");

    let request = &update.review["request"];
    assert_eq!(request["dryRun"], true);
    assert_eq!(request["object"]["data"], json!({"k": "w"}));
    assert_eq!(request["oldObject"]["data"], json!({"k": "v"}));
    assert_eq!(
        request["options"],
        json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]})
    );
    let request = &delete.review["request"];
    assert_eq!(request["object"], Value::Null);
    assert_eq!(request["oldObject"]["data"], json!({"k": "v"}));
    assert_eq!(request["options"]["kind"], "DeleteOptions");
    Ok(())
}

#[tokio::test]
async fn mutating_webhooks_see_earlier_mutations() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|path, request| {
        let step = path.trim_start_matches('/');
        let seen = &request["object"]["data"];
        let trace = seen["trace"].as_str().unwrap_or_default();
        // The last one is idempotent: it changes the object once only.
        if step == "c" && trace.contains('c') {
            return Reply::allow();
        }
        let patch =
            json!([{"op": "add", "path": "/data/trace", "value": format!("{trace}{step}")}]);
        Reply::patch(&patch)
    })
    .await?;
    let hooks = Hooks::new(&cluster, &server, "order").await?;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    // Ordered by the names of configurations, not by creation time, then by position.
    hooks
        .mutating("order-2", vec![hooks.hook("c", RULES_MAPS, json!({}))])
        .await?;
    hooks
        .mutating(
            "order-1",
            vec![
                hooks.hook("a", RULES_MAPS, again),
                hooks.hook("b", RULES_MAPS, json!({})),
            ],
        )
        .await?;
    let (code, body, _) = ask(
        &cluster,
        "POST",
        &hooks.maps(),
        &map("m", json!({"k": "v"})),
    )
    .await?;
    assert_eq!(code, 201, "{body}");
    // Later webhooks changed the object after `a`, which has reinvocationPolicy IfNeeded; the others do not.
    assert_eq!(body["data"]["trace"], "abca");
    let first = &server.questions("/a")[0].review["request"]["object"];
    assert!(first["metadata"].get("uid").is_none(), "{first}");
    Ok(())
}

#[tokio::test]
async fn denials_keep_their_code_and_reason() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|_, request| {
        let answer = &request["object"]["data"]["answer"];
        let answer = answer
            .as_str()
            .or_else(|| request["oldObject"]["data"]["answer"].as_str());
        match serde_json::from_str(answer.unwrap_or_default()) {
            Ok(response) => Reply::Response(response),
            Err(_) => Reply::allow(),
        }
    })
    .await?;
    let hooks = Hooks::new(&cluster, &server, "refusals").await?;
    for (kind, validating) in [("mutating", false), ("validating", true)] {
        let hook = hooks.hook("no", RULES_MAPS, json!({"failurePolicy": "Ignore"}));
        if validating {
            hooks.validating("refusals", vec![hook]).await?;
        } else {
            hooks.mutating("refusals", vec![hook]).await?;
        }
        let denied = "admission webhook \"no.example.com\" denied the request";
        for (response, code, reason, message) in [
            (
                json!({"allowed": false}),
                400,
                "",
                format!("{denied} without explanation"),
            ),
            (
                json!({"allowed": false, "status": {"message": "nope", "code": 403, "reason": "Forbidden"}}),
                403,
                "Forbidden",
                format!("{denied}: nope"),
            ),
            (
                json!({"allowed": false, "status": {"reason": "TooBad", "code": 200, "status": "Success"}}),
                400,
                "TooBad",
                format!("{denied}: TooBad"),
            ),
            (
                json!({"allowed": false, "status": {"message": "teapot", "code": 418,
                    "details": {"causes": [{"message": "short and stout"}]}}}),
                418,
                "",
                format!("{denied}: teapot"),
            ),
        ] {
            let object = map("x", json!({"answer": response.to_string()}));
            let (got, body, _) = ask(&cluster, "POST", &hooks.maps(), &object).await?;
            assert_eq!(got, code, "{kind} {response}: {body}");
            assert_eq!(body["message"], message, "{kind} {response}");
            assert_eq!(
                body["reason"].as_str().unwrap_or_default(),
                reason,
                "{kind} {response}"
            );
            assert_eq!(body["status"], "Failure", "{kind} {response}");
            assert_eq!(
                body["details"], response["status"]["details"],
                "{kind} {response}"
            );
        }
        let warn = json!({"allowed": true, "warnings": ["careful", "there \"now\""]});
        let object = map(
            &format!("warned-{kind}"),
            json!({"answer": warn.to_string()}),
        );
        let (code, body, answer) = ask(&cluster, "POST", &hooks.maps(), &object).await?;
        assert_eq!(code, 201, "{body}");
        assert_eq!(
            warnings(&answer),
            ["299 - \"careful\"", "299 - \"there \\\"now\\\"\""],
            "{kind}"
        );
        hooks.remove("refusals").await?;
    }
    Ok(())
}
