//! Which requests a webhook is called for, and with which version of the object.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster, WebhookServer, wait_until};

use crate::allow_all;
use crate::webhooks_support::{Hooks, RULES_MAPS, WAIT_TIMEOUT, ask, map};

fn requests(server: &WebhookServer, path: &str) -> Vec<Value> {
    let questions = server.questions(path).into_iter();
    questions.map(|q| q.review["request"].clone()).collect()
}

async fn done(
    cluster: &TestCluster,
    method: &str,
    path: &str,
    body: &Value,
) -> anyhow::Result<Value> {
    let (code, body, _) = ask(cluster, method, path, body).await?;
    anyhow::ensure!(code < 300, "{method} {path}: {code} {body}");
    Ok(body)
}

#[tokio::test]
async fn selectors_match_namespaces_and_old_and_new_objects() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "selectors").await?;
    let red = json!({"objectSelector": {"matchLabels": {"color": "red"}}});
    let of_team = |scope: &str| {
        json!({
            "namespaceSelector": {"matchLabels": {"team": "selectors"}},
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["namespaces"], "scope": scope}],
        })
    };
    hooks
        .validating(
            "selectors",
            vec![
                hooks.hook("red", RULES_MAPS, red),
                hooks.hook("cluster", RULES_MAPS, of_team("Cluster")),
                hooks.hook("namespaced", RULES_MAPS, of_team("Namespaced")),
            ],
        )
        .await?;
    let maps = hooks.maps();
    let mut object = map("a", json!({}));
    done(&cluster, "POST", &maps, &object).await?;
    object["metadata"]["labels"] = json!({"color": "red"});
    done(&cluster, "PUT", &format!("{maps}/a"), &object).await?;
    object["metadata"]["labels"] = json!({"color": "blue"});
    done(&cluster, "PUT", &format!("{maps}/a"), &object).await?;
    done(
        &cluster,
        "PUT",
        &format!("{maps}/a"),
        &map("a", json!({"k": "v"})),
    )
    .await?;
    assert_eq!(requests(&server, "/red").len(), 2);
    // In other namespaces the webhook is not called.
    let mut elsewhere = map("selectors-red", json!({}));
    elsewhere["metadata"]["labels"] = json!({"color": "red"});
    done(
        &cluster,
        "POST",
        "/api/v1/namespaces/default/configmaps",
        &elsewhere,
    )
    .await?;
    assert_eq!(requests(&server, "/red").len(), 2);
    // For a namespace itself, its new labels count.
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "selectors-x", "labels": {"team": "selectors"}}});
    done(&cluster, "POST", "/api/v1/namespaces", &namespace).await?;
    namespace["metadata"]["labels"] = json!({});
    done(
        &cluster,
        "PUT",
        "/api/v1/namespaces/selectors-x",
        &namespace,
    )
    .await?;
    let asked = requests(&server, "/cluster");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0]["namespace"], "selectors-x");
    assert_eq!(asked[0]["name"], "selectors-x");
    assert_eq!(requests(&server, "/namespaced").len(), 0);
    Ok(())
}

#[tokio::test]
async fn equivalent_versions_are_converted_and_exact_ones_are_not() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|path, _| match path {
        "/patching" => Reply::patch(&json!([{"op": "add", "path": "/spec/mark", "value": "m"}])),
        _ => Reply::allow(),
    })
    .await?;
    let hooks = Hooks::new(&cluster, &server, "versions").await?;
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}}}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.versions.example.com"},
        "spec": {"group": "versions.example.com", "scope": "Namespaced",
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
            "versions": [version("v1", true), version("v2", false)]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    done(&cluster, "POST", path, &definition).await?;
    let gears = format!(
        "/apis/versions.example.com/v2/namespaces/{}/gears",
        hooks.namespace
    );
    wait_until("gears are served", WAIT_TIMEOUT, || async {
        Ok((ask(&cluster, "GET", &gears, &Value::Null).await?.0 == 200).then_some(()))
    })
    .await?;
    let rules = |policy: &str| {
        json!({"matchPolicy": policy, "rules": [{"operations": ["*"], "apiVersions": ["v1"],
            "apiGroups": ["versions.example.com"], "resources": ["gears"]}]})
    };
    hooks
        .mutating(
            "versions",
            vec![
                hooks.hook("exact", RULES_MAPS, rules("Exact")),
                hooks.hook("patching", RULES_MAPS, rules("Equivalent")),
            ],
        )
        .await?;
    let gear = json!({"apiVersion": "versions.example.com/v2", "kind": "Gear",
        "metadata": {"name": "g"}, "spec": {"teeth": 8}});
    let made = done(&cluster, "POST", &gears, &gear).await?;
    assert_eq!(made["apiVersion"], "versions.example.com/v2");
    assert_eq!(made["spec"], json!({"teeth": 8, "mark": "m"}));
    let asked = requests(&server, "/patching");
    assert_eq!(asked[0]["kind"]["version"], "v1");
    assert_eq!(asked[0]["resource"]["version"], "v1");
    assert_eq!(asked[0]["requestKind"]["version"], "v2");
    assert_eq!(asked[0]["requestResource"]["version"], "v2");
    assert_eq!(asked[0]["object"]["apiVersion"], "versions.example.com/v1");
    assert_eq!(requests(&server, "/exact").len(), 0);
    Ok(())
}

#[tokio::test]
async fn match_conditions_are_evaluated_before_the_call() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "conditions").await?;
    let on = |expressions: &[&str], policy: &str| {
        let conditions: Vec<Value> = expressions
            .iter()
            .enumerate()
            .map(|(i, text)| json!({"name": format!("c{i}"), "expression": text}))
            .collect();
        json!({"matchConditions": conditions, "failurePolicy": policy})
    };
    let mine = "request.userInfo.username == 'admin' && request.operation != 'DELETE'";
    let keyed = "object.data.key == 'yes'";
    hooks
        .validating(
            "conditions",
            vec![
                hooks.hook("mine", RULES_MAPS, on(&[mine, "oldObject == null"], "Fail")),
                hooks.hook(
                    "keyed",
                    RULES_MAPS,
                    on(&[keyed, "object.metadata.name != 'b'"], "Fail"),
                ),
                hooks.hook("lax", RULES_MAPS, on(&[keyed], "Ignore")),
            ],
        )
        .await?;
    let maps = hooks.maps();
    let (code, body, _) = ask(&cluster, "POST", &maps, &map("a", json!({"other": "x"}))).await?;
    assert_eq!(code, 403, "{body}");
    assert_eq!(
        body["message"],
        "configmaps \"a\" is forbidden: expression 'object.data.key == 'yes'' resulted in error: no such \
         key: key"
    );
    // One false condition is enough, even if another one fails.
    done(&cluster, "POST", &maps, &map("b", json!({"other": "x"}))).await?;
    done(&cluster, "POST", &maps, &map("c", json!({"key": "yes"}))).await?;
    let names = |path: &str| -> Vec<Value> {
        let asked = requests(&server, path).into_iter();
        asked.map(|request| request["name"].clone()).collect()
    };
    assert_eq!(names("/keyed"), ["c"]);
    assert_eq!(names("/lax"), ["c"]);
    Ok(())
}

#[tokio::test]
async fn subresources_are_reviewed_with_their_own_kind() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|path, request| {
        match (path, request["subResource"].as_str().unwrap_or_default()) {
            ("/change", "scale") => {
                Reply::patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]))
            }
            _ => Reply::allow(),
        }
    })
    .await?;
    let hooks = Hooks::new(&cluster, &server, "parts").await?;
    hooks
        .mutating(
            "parts",
            vec![
                hooks.hook("change", "apps:deployments/scale", json!({})),
                hooks.hook("deployment", "apps:deployments,deployments/*", json!({})),
                hooks.hook("pod", "pods/binding,pods/eviction", json!({})),
            ],
        )
        .await?;
    let namespace = &hooks.namespace;
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    done(&cluster, "POST", &deployments, &deployment).await?;
    let scale = json!({"spec": {"replicas": 3}});
    let made = done(&cluster, "PATCH", &format!("{deployments}/d/scale"), &scale).await?;
    assert_eq!(made["spec"]["replicas"], 7);
    let live = done(&cluster, "GET", &format!("{deployments}/d"), &Value::Null).await?;
    assert_eq!(live["spec"]["replicas"], 7);
    let status = json!({"status": {"observedGeneration": 1}});
    done(
        &cluster,
        "PATCH",
        &format!("{deployments}/d/status"),
        &status,
    )
    .await?;
    let asked = requests(&server, "/deployment");
    let seen: Vec<(&str, &str, &str)> = asked
        .iter()
        .map(|request| {
            let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str);
            (
                text("/operation").unwrap_or_default(),
                text("/subResource").unwrap_or_default(),
                text("/kind/kind").unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("CREATE", "", "Deployment"),
            ("UPDATE", "scale", "Scale"),
            ("UPDATE", "status", "Deployment"),
        ]
    );
    assert_eq!(asked[1]["object"]["kind"], "Scale");
    assert_eq!(asked[1]["oldObject"]["spec"]["replicas"], 1);

    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]});
    done(&cluster, "POST", &pods, &pod).await?;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"}});
    done(&cluster, "POST", &format!("{pods}/p/binding"), &binding).await?;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    done(&cluster, "POST", &format!("{pods}/p/eviction"), &eviction).await?;
    let asked = requests(&server, "/pod");
    let seen: Vec<(&Value, &Value, &Value)> = asked
        .iter()
        .map(|request| {
            (
                &request["operation"],
                &request["subResource"],
                &request["kind"]["kind"],
            )
        })
        .collect();
    let create = &json!("CREATE");
    assert_eq!(
        seen,
        [
            (create, &json!("binding"), &json!("Binding")),
            (create, &json!("eviction"), &json!("Eviction")),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn webhook_configurations_are_not_reviewed() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|_, _| Reply::deny("never")).await?;
    let hooks = Hooks::new(&cluster, &server, "exempt").await?;
    let all = json!({
        "namespaceSelector": {},
        "rules": [{"operations": ["*"], "apiGroups": ["admissionregistration.k8s.io"],
            "apiVersions": ["*"], "resources": ["*"]}],
    });
    hooks
        .validating("exempt", vec![hooks.hook("never", RULES_MAPS, all)])
        .await?;
    hooks.remove("exempt").await?;
    assert_eq!(requests(&server, "/never").len(), 0);
    Ok(())
}

#[tokio::test]
async fn service_references_are_resolved() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::with_names(&["hook.default.svc"], true, allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "services").await?;
    let service = |name: &str, port: u16| {
        let reference =
            json!({"namespace": "default", "name": name, "path": "/found/", "port": port});
        json!({"service": reference, "caBundle": server.ca_bundle()})
    };
    let only = |label: &str| json!({"objectSelector": {"matchLabels": {"to": label}}});
    hooks
        .validating(
            "services",
            vec![
                hooks.hook_at(
                    "there",
                    RULES_MAPS,
                    service("hook", server.port()),
                    only("there"),
                ),
                hooks.hook_at(
                    "missing",
                    RULES_MAPS,
                    service("missing", 443),
                    only("missing"),
                ),
                hooks.hook_at(
                    "portless",
                    RULES_MAPS,
                    service("kubernetes", 1),
                    only("portless"),
                ),
            ],
        )
        .await?;
    // The only kind of Service that can point to a loopback address.
    let external = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    done(
        &cluster,
        "POST",
        "/api/v1/namespaces/default/services",
        &external,
    )
    .await?;
    let labelled = |to: &str| {
        let mut object = map(to, json!({}));
        object["metadata"]["labels"] = json!({"to": to});
        object
    };
    let maps = hooks.maps();
    wait_until("the service is known", WAIT_TIMEOUT, || async {
        let (code, _, _) = ask(&cluster, "POST", &maps, &labelled("there")).await?;
        Ok((code == 201).then_some(()))
    })
    .await?;
    let asked = server.questions("/found");
    assert_eq!(asked[0].uri, "/found?timeout=5s");
    assert_eq!(asked[0].protocol, "HTTP/1.1");
    for (name, message) in [
        (
            "missing",
            "Post \"https://missing.default.svc:443/found?timeout=5s\": service \"missing\" not found",
        ),
        (
            "portless",
            "Post \"https://kubernetes.default.svc:1/found?timeout=5s\": no service port 1 found for \
             service \"kubernetes\"",
        ),
    ] {
        let (code, body, _) = ask(&cluster, "POST", &maps, &labelled(name)).await?;
        assert_eq!(code, 500, "{body}");
        let why = format!(
            "Internal error occurred: failed calling webhook \"{name}.example.com\": failed to call \
             webhook: {message}"
        );
        assert_eq!(body["message"], why);
    }
    Ok(())
}

#[tokio::test]
async fn slow_webhook_does_not_block_other_writes() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(|_, _| Reply::Hang).await?;
    let hooks = Hooks::new(&cluster, &server, "thinking").await?;
    let slow = json!({"timeoutSeconds": 30, "objectSelector": {"matchLabels": {"slow": "yes"}}});
    hooks
        .validating("thinking", vec![hooks.hook("slow", "services", slow)])
        .await?;
    let services = format!("/api/v1/namespaces/{}/services", hooks.namespace);
    let service = |name: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
    };
    let waiting_service = service("waiting", json!({"slow": "yes"}));
    let waiting = ask(&cluster, "POST", &services, &waiting_service);
    let others = async {
        wait_until("the webhook is called", WAIT_TIMEOUT, || async {
            Ok(server.questions("/slow").pop())
        })
        .await?;
        let promised = server.questions("/slow").remove(0).review;
        let promised = promised.pointer("/request/object/spec/clusterIP").cloned();
        let made = done(&cluster, "POST", &services, &service("other", json!({}))).await?;
        anyhow::Ok((promised, made.pointer("/spec/clusterIP").cloned()))
    };
    tokio::select! {
        answer = waiting => anyhow::bail!("answered too early: {answer:?}"),
        others = others => {
            let (promised, other) = others?;
            assert!(promised.is_some());
            assert_ne!(promised, other, "an address was handed out twice");
        }
    }
    Ok(())
}

#[tokio::test]
async fn connections_are_reused() -> anyhow::Result<()> {
    for (http2, protocol) in [(true, "HTTP/2.0"), (false, "HTTP/1.1")] {
        let cluster = TestCluster::start().await?;
        let server = WebhookServer::with_names(&["127.0.0.1"], http2, allow_all).await?;
        let hooks = Hooks::new(&cluster, &server, "again").await?;
        let older = json!({"admissionReviewVersions": ["v2", "v1beta1", "v1"]});
        hooks
            .validating("again", vec![hooks.hook("again", RULES_MAPS, older)])
            .await?;
        for name in ["a", "b", "c", "d"] {
            done(&cluster, "POST", &hooks.maps(), &map(name, json!({}))).await?;
        }
        let questions = server.questions("/again");
        assert_eq!(questions.len(), 4);
        for question in &questions {
            assert_eq!(question.protocol, protocol);
            assert_eq!(question.review["apiVersion"], "admission.k8s.io/v1beta1");
        }
        assert_eq!(server.connections(), 1, "{protocol}");
    }
    Ok(())
}

#[tokio::test]
async fn every_write_operation_is_reviewed() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let server = WebhookServer::start(allow_all).await?;
    let hooks = Hooks::new(&cluster, &server, "ways").await?;
    hooks
        .validating(
            "ways",
            vec![
                hooks.hook("ways", RULES_MAPS, json!({})),
                hooks.hook("limits", "limitranges", json!({})),
            ],
        )
        .await?;
    let maps = hooks.maps();
    let apply = format!("{maps}/applied?fieldManager=me&force=true");
    done(
        &cluster,
        "PATCH",
        &apply,
        &map("applied", json!({"a": "1"})),
    )
    .await?;
    done(
        &cluster,
        "PATCH",
        &apply,
        &map("applied", json!({"a": "2"})),
    )
    .await?;
    let mut made = map("", json!({}));
    made["metadata"] = json!({"generateName": "made-"});
    let made = done(&cluster, "POST", &maps, &made).await?;
    done(&cluster, "DELETE", &maps, &Value::Null).await?;
    let seen: Vec<(String, String, String)> = requests(&server, "/ways")
        .iter()
        .map(|request| {
            let text = |pointer: &str| {
                let found = request.pointer(pointer).and_then(Value::as_str);
                found.unwrap_or_default().to_owned()
            };
            (text("/operation"), text("/name"), text("/options/kind"))
        })
        .collect();
    let expected = [
        ("CREATE", "applied", "CreateOptions"),
        ("UPDATE", "applied", "UpdateOptions"),
        // After mutation the object has its generated name.
        (
            "CREATE",
            made["metadata"]["name"].as_str().unwrap_or_default(),
            "CreateOptions",
        ),
        // A request for a collection has no name.
        ("DELETE", "", "DeleteOptions"),
        ("DELETE", "", "DeleteOptions"),
    ]
    .map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(seen, expected);
    // PUT of a missing object creates it, for some kinds.
    let path = format!("/api/v1/namespaces/{}/limitranges/l", hooks.namespace);
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    done(&cluster, "PUT", &path, &limits).await?;
    let asked = requests(&server, "/limits");
    assert_eq!(asked[0]["operation"], "CREATE");
    assert_eq!(asked[0]["options"]["kind"], "CreateOptions");
    assert_eq!(asked[0]["oldObject"], Value::Null);
    Ok(())
}
