//! Hostile input: it gets a documented error, and the server keeps working.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

use std::time::Duration;

use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use testkit::TestCluster;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

fn request(
    method: Method,
    path: &str,
    media_type: &str,
    body: impl Into<Vec<u8>>,
) -> Request<Vec<u8>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .header("user-agent", "hostile")
        .body(body.into())
        .unwrap()
}

/// Sends a body and asserts the status code, and that the response is a `Status`.
async fn assert_rejected(
    cluster: &TestCluster,
    request: Request<Vec<u8>>,
    expected: u16,
) -> anyhow::Result<String> {
    let what = format!("{} {}", request.method(), request.uri());
    let answer = cluster.request(request).await?;
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    assert_eq!(answer.status().as_u16(), expected, "{what}: {text:.500}");
    let status: Value = serde_json::from_str(&text)?;
    assert_eq!(status["kind"], "Status", "{what}: {text:.500}");
    assert_eq!(status["code"], expected, "{what}: {text:.500}");
    Ok(status["message"].as_str().unwrap_or_default().to_owned())
}

/// Asserts that the server still creates and reads objects.
async fn assert_alive(cluster: &TestCluster) -> anyhow::Result<()> {
    let answer = cluster
        .request(request(
            Method::POST,
            MAPS,
            JSON,
            r#"{"metadata":{"generateName":"alive-"}}"#,
        ))
        .await?;
    assert_eq!(answer.status(), StatusCode::CREATED, "{:?}", answer.body());
    Ok(())
}

fn named(name: &str, more: Value) -> Vec<u8> {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object.to_string().into_bytes()
}

#[tokio::test]
async fn malformed_bodies_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let bodies: [&[u8]; 14] = [
        b"",
        b"{",
        b"}",
        b"{\"metadata\":",
        b"{\"metadata\":{\"name\":\"a\"",
        b"null garbage",
        b"[]",
        b"[1,2",
        b"\"text\"",
        b"7",
        b"\xff\xfe\x00",
        b"{\"metadata\":{\"name\":\"\\ud800\xff\"}}",
        b"{\"a\":1e999999}",
        b"{'single': 'quotes'}",
    ];
    for body in bodies {
        let what = String::from_utf8_lossy(body).into_owned();
        let answer = cluster
            .request(request(Method::POST, MAPS, JSON, body))
            .await?;
        assert!(
            answer.status().is_client_error(),
            "{what}: {}",
            answer.status()
        );
    }
    for body in [
        "a: [",
        "a: b: c",
        "\t- x",
        "&a [*a, *b]",
        "--- !!binary x\n%",
        "{a: 1, a: 2",
    ] {
        let answer = cluster
            .request(request(Method::POST, MAPS, "application/yaml", body))
            .await?;
        assert!(
            answer.status().is_client_error(),
            "{body}: {}",
            answer.status()
        );
        let path = format!("{MAPS}/x?fieldManager=m");
        let apply = request(Method::PATCH, &path, "application/apply-patch+yaml", body);
        let answer = cluster.request(apply).await?;
        assert!(
            answer.status().is_client_error(),
            "apply {body}: {}",
            answer.status()
        );
    }
    assert_alive(&cluster).await
}

#[tokio::test]
async fn oversized_bodies_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let text = "x".repeat(4 << 20);
    assert_rejected(
        &cluster,
        request(
            Method::POST,
            MAPS,
            JSON,
            named("big", json!({"data": {"a": text}})),
        ),
        413,
    )
    .await?;
    let text = "x".repeat((1 << 20) + 1);
    let message = assert_rejected(
        &cluster,
        request(
            Method::POST,
            MAPS,
            JSON,
            named("big", json!({"data": {"a": text}})),
        ),
        422,
    )
    .await?;
    assert!(
        message.contains("Too long: may not be more than 1048576 bytes"),
        "{message}"
    );
    let annotations =
        json!({"metadata": {"name": "big", "annotations": {"a": "x".repeat(262_145)}}});
    let message = assert_rejected(
        &cluster,
        request(Method::POST, MAPS, JSON, named("big", annotations)),
        422,
    )
    .await?;
    assert!(
        message.contains("Too long: may not be more than 262144 bytes"),
        "{message}"
    );
    assert_alive(&cluster).await
}

#[tokio::test]
async fn deep_nesting_is_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    for depth in [200, 9_000, 100_000, 1_000_000] {
        let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        for value in [arrays, objects] {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"data":{{"a":{value}}}}}"#
            );
            for media_type in [JSON, "application/yaml"] {
                let answer = cluster
                    .request(request(Method::POST, MAPS, media_type, body.clone()))
                    .await?;
                assert!(
                    answer.status().is_client_error(),
                    "{media_type} {depth}: {}",
                    answer.status()
                );
            }
            let patch = request(
                Method::PATCH,
                &format!("{MAPS}/deep"),
                "application/merge-patch+json",
                body,
            );
            assert!(
                cluster.request(patch).await?.status().is_client_error(),
                "patch {depth}"
            );
        }
    }
    // A few lines of YAML aliases that would expand to gigabytes.
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs = format!("{laughs}a{level}: &a{level} [{before}]\n");
    }
    let answer = cluster
        .request(request(Method::POST, MAPS, "application/yaml", laughs))
        .await?;
    assert!(answer.status().is_client_error(), "{}", answer.status());
    assert_alive(&cluster).await
}

#[tokio::test]
async fn invalid_names_and_types_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let long = "a".repeat(254);
    for name in [
        "UPPER",
        "under_score",
        "a/b",
        "..",
        "-a",
        "a-",
        "a b",
        "ä",
        "",
        &long,
    ] {
        let answer = cluster
            .request(request(Method::POST, MAPS, JSON, named(name, json!({}))))
            .await?;
        assert_eq!(
            answer.status(),
            StatusCode::UNPROCESSABLE_ENTITY,
            "{name:?}"
        );
    }
    for (body, part) in [
        (
            json!({"data": {"a": 1}}),
            "cannot unmarshal number into Go struct field",
        ),
        (
            json!({"data": []}),
            "cannot unmarshal array into Go struct field",
        ),
        (
            json!({"immutable": "yes"}),
            "cannot unmarshal string into Go struct field",
        ),
        (
            json!({"metadata": {"name": "a", "labels": {"k": 1}}}),
            "cannot unmarshal number",
        ),
        (json!({"metadata": "a"}), "cannot unmarshal string"),
        (json!({"binaryData": {"a": "%"}}), "illegal base64 data"),
    ] {
        let message = assert_rejected(
            &cluster,
            request(Method::POST, MAPS, JSON, named("a", body.clone())),
            400,
        )
        .await?;
        assert!(message.contains(part), "{body}: {message}");
    }
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let body = r#"{"metadata":{"name":"a","bogus":1},"zz":2,"data":{"x":"1","x":"2"}}"#;
    let message =
        assert_rejected(&cluster, request(Method::POST, &strict, JSON, body), 400).await?;
    for part in [
        "unknown field \"zz\"",
        "unknown field \"metadata.bogus\"",
        "duplicate field \"data.x\"",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    for (path, expected) in [
        (format!("{MAPS}?limit=many"), 400),
        (format!("{MAPS}?continue=%FF%FE"), 400),
        (format!("{MAPS}?labelSelector=a+in"), 400),
        (format!("{MAPS}?fieldSelector=%3D%3D%3D"), 400),
        (format!("{MAPS}?resourceVersion=-1"), 400),
        (format!("{MAPS}?resourceVersionMatch=Foo"), 422),
        (
            format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion=0"),
            422,
        ),
    ] {
        assert_rejected(&cluster, request(Method::GET, &path, JSON, ""), expected).await?;
    }
    assert_alive(&cluster).await
}

#[tokio::test]
async fn invalid_patches_are_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    cluster
        .request(request(
            Method::POST,
            MAPS,
            JSON,
            named("m", json!({"data": {"a": "1"}})),
        ))
        .await?;
    let path = format!("{MAPS}/m");
    let many: Vec<Value> = (0..10_001)
        .map(|_| json!({"op": "test", "path": "/data/a", "value": "1"}))
        .collect();
    let (json_patch, merge, strategic) = (
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    );
    for (media_type, body, expected) in [
        (json_patch, "{}".to_owned(), 400),
        (
            json_patch,
            r#"[{"op":"nonsense","path":"/a"}]"#.to_owned(),
            422,
        ),
        (
            json_patch,
            r#"[{"op":"remove","path":"/none"}]"#.to_owned(),
            422,
        ),
        (
            json_patch,
            r#"[{"op":"copy","from":"","path":"/data/a"}]"#.to_owned(),
            422,
        ),
        (json_patch, Value::from(many).to_string(), 413),
        (merge, "[]".to_owned(), 400),
        (merge, "1".to_owned(), 400),
        (
            strategic,
            r#"{"metadata":{"ownerReferences":[{"kind":"x"}]}}"#.to_owned(),
            422,
        ),
        (
            strategic,
            r#"{"data":{"$patch":"nonsense"}}"#.to_owned(),
            500,
        ),
        ("text/plain", "{}".to_owned(), 415),
        ("nonsense", "{}".to_owned(), 415),
    ] {
        let answer = cluster
            .request(request(Method::PATCH, &path, media_type, body.clone()))
            .await?;
        let text = String::from_utf8_lossy(answer.body());
        assert_eq!(
            answer.status().as_u16(),
            expected,
            "{media_type} {body:.100}: {text:.300}"
        );
    }
    assert_alive(&cluster).await
}

/// Pseudo-random numbers that are the same in every run.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

#[tokio::test]
async fn random_protobuf_is_rejected() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let protobuf = "application/vnd.kubernetes.protobuf";
    for seed in 0..400 {
        let length = usize::try_from(seed % 97)?;
        let mut body: Vec<u8> = if seed % 3 == 0 {
            Vec::new()
        } else {
            b"k8s\0".to_vec()
        };
        if seed % 3 == 2 {
            // A valid envelope around garbage: apiVersion, kind, and the object itself.
            body.extend(b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap");
            body.push(0x12);
            body.push(u8::try_from(length)?);
        }
        body.extend(noise(seed).take(length));
        let answer = cluster
            .request(request(Method::POST, MAPS, protobuf, body.clone()))
            .await?;
        let code = answer.status().as_u16();
        assert!(
            matches!(code, 400 | 415 | 422),
            "{body:?}: {code} {:?}",
            answer.body()
        );
    }
    // Lengths beyond the end, and a varint that does not end.
    for body in [
        &b"k8s\0\x0a\xff\xff\xff\xff\x0f"[..],
        b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let answer = cluster
            .request(request(Method::POST, MAPS, protobuf, body))
            .await?;
        assert!(
            answer.status().is_client_error(),
            "{body:?}: {}",
            answer.status()
        );
    }
    assert_alive(&cluster).await
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.hostile.example.com")},
        "spec": {
            "group": "hostile.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.to_uppercase()},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

#[tokio::test]
async fn expensive_schemas_are_rejected_or_bounded() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let rule = |rule: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let list = |rule: &str| {
        json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}},
               "x-kubernetes-validations": [{"rule": rule}]})
    };
    let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let mut nested = json!({"type": "string"});
    for _ in 0..60 {
        nested = json!({"type": "object", "properties": {"a": nested}});
    }
    let cases = [
        rule("self.nope == 1"),
        rule("1 +"),
        rule("'"),
        rule(""),
        rule("'text'"),
        rule(&format!("{deep} == 1")),
        rule(&"true && ".repeat(20_000)),
        list("self.l.all(x, self.l.all(y, x.all(a, y.all(b, a == b))))"),
        json!({"type": "string", "pattern": "(("}),
        json!({"type": "string", "pattern": "(?=a)"}),
        json!({"type": "string", "pattern": "((a{1000}){1000}){1000}"}),
        json!({"type": "nonsense"}),
        json!({"$ref": "#/definitions/x"}),
        json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}),
        json!({"properties": {"a": {}}}),
    ];
    for (index, spec) in cases.into_iter().enumerate() {
        let text = spec.to_string();
        let body = definition(&format!("h{index}s"), &spec).to_string();
        let send = cluster.request(request(Method::POST, DEFINITIONS, JSON, body));
        let answer = tokio::time::timeout(Duration::from_secs(20), send).await??;
        let response_text = String::from_utf8_lossy(answer.body());
        assert!(
            matches!(answer.status().as_u16(), 400 | 422),
            "{text:.200}: {} {response_text:.300}",
            answer.status()
        );
    }
    // Deep but valid.
    let body = definition("deeps", &nested).to_string();
    let answer = cluster
        .request(request(Method::POST, DEFINITIONS, JSON, body))
        .await?;
    assert_eq!(answer.status(), StatusCode::CREATED, "{:?}", answer.body());
    // A regular expression on which backtracking would never finish.
    let body = definition("slows", &json!({"type": "string", "pattern": "^(a+)+$"})).to_string();
    let answer = cluster
        .request(request(Method::POST, DEFINITIONS, JSON, body))
        .await?;
    assert_eq!(answer.status(), StatusCode::CREATED, "{:?}", answer.body());
    let path = "/apis/hostile.example.com/v1/namespaces/default/slows";
    let object = json!({"apiVersion": "hostile.example.com/v1", "kind": "SLOWS", "metadata": {"name": "s"},
                        "spec": format!("{}b", "a".repeat(50_000))});
    testkit::wait_until("the kind is served", Duration::from_secs(20), || async {
        let answer = cluster
            .request(request(Method::POST, path, JSON, object.to_string()))
            .await?;
        Ok((answer.status() != StatusCode::NOT_FOUND).then(|| answer.status()))
    })
    .await
    .map(|code| assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY))?;
    assert_alive(&cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_disconnected_clients_do_not_block_others() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    let address = served.url.trim_start_matches("https://").to_owned();
    // Connections that send nothing, garbage, or half a handshake.
    let mut held = Vec::new();
    for index in 0..100_u8 {
        let mut stream = TcpStream::connect(&address).await?;
        match index % 3 {
            0 => {}
            1 => stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await?,
            _ => {
                stream
                    .write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
                    .await?;
            }
        }
        held.push(stream);
    }
    assert_alive(&cluster).await?;
    // Plain text on the TLS port ends the connection.
    let mut text = held.swap_remove(1);
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(30), text.read_to_end(&mut answer))
        .await?
        .ok();
    // Watches whose clients have disconnected.
    for _ in 0..50 {
        let lines = cluster
            .stream(request(
                Method::GET,
                &format!("{MAPS}?watch=true"),
                JSON,
                "",
            ))
            .await?;
        assert_eq!(lines.status, StatusCode::OK);
        drop(lines);
    }
    // A watch whose client does not read does not block others.
    let unread = cluster
        .stream(request(
            Method::GET,
            &format!("{MAPS}?watch=true"),
            JSON,
            "",
        ))
        .await?;
    let mut read = cluster
        .stream(request(
            Method::GET,
            &format!("{MAPS}?watch=true"),
            JSON,
            "",
        ))
        .await?;
    for index in 0..200 {
        let body = named(
            &format!("w{index}"),
            json!({"data": {"a": "x".repeat(10_000)}}),
        );
        let answer = cluster
            .request(request(Method::POST, MAPS, JSON, body))
            .await?;
        assert_eq!(answer.status(), StatusCode::CREATED);
    }
    loop {
        let event = read.next_json().await?.expect("the watch goes on");
        if event["object"]["metadata"]["name"] == "w199" {
            break;
        }
    }
    drop((unread, held));
    assert_alive(&cluster).await
}
