use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A message under construction: the counterpart of the decoder, field by field.
#[derive(Default)]
struct Message(Vec<u8>);

fn varint_bytes(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

impl Message {
    fn int(mut self, number: u64, value: i64) -> Self {
        self.0.extend(varint_bytes(number << 3));
        self.0.extend(varint_bytes(value.cast_unsigned()));
        self
    }

    fn bytes(mut self, number: u64, bytes: &[u8]) -> Self {
        self.0.extend(varint_bytes(number << 3 | 2));
        self.0.extend(varint_bytes(bytes.len() as u64));
        self.0.extend(bytes);
        self
    }

    fn text(self, number: u64, text: &str) -> Self {
        self.bytes(number, text.as_bytes())
    }

    fn message(self, number: u64, message: &Self) -> Self {
        self.bytes(number, &message.0)
    }

    fn double(mut self, number: u64, value: f64) -> Self {
        self.0.extend(varint_bytes(number << 3 | 1));
        self.0.extend(value.to_le_bytes());
        self
    }
}

fn new() -> Message {
    Message::default()
}

fn entry_of(key: &str, value: &Message) -> Message {
    new().text(1, key).message(2, value)
}

fn body(api_version: &str, kind: &str, object: &Message) -> Vec<u8> {
    let meta = new().text(1, api_version).text(2, kind);
    let unknown = new()
        .message(1, &meta)
        .message(2, object)
        .text(3, "")
        .text(4, "");
    [PREFIX.as_slice(), &unknown.0].concat()
}

fn decode(api_version: &str, kind: &str, object: &Message) -> Value {
    decode_protobuf(&body(api_version, kind, object), None).unwrap()
}

#[test]
fn a_pod() {
    let meta = new()
        .text(1, "p")
        .text(2, "")
        .int(7, 0)
        .message(8, &new())
        .message(11, &new().text(1, "app").text(2, "x"))
        .message(9, &new().int(1, 1_577_836_800).int(2, 5));
    let port = new().int(3, 80).text(4, "TCP");
    let requests = entry_of("cpu", &new().text(1, "500m"));
    let probe = new()
        .message(
            1,
            &new().message(
                2,
                &new()
                    .text(1, "/")
                    .message(2, &new().int(1, 1).text(3, "web")),
            ),
        )
        .int(4, 10);
    let container = new()
        .text(1, "c")
        .text(3, "run")
        .text(3, "fast")
        .message(6, &port)
        .message(8, &new().message(2, &requests))
        .message(10, &probe)
        .message(15, &new().int(2, 1).int(4, 0))
        .int(16, 0);
    let volume = new()
        .text(1, "v")
        .message(2, &new().message(1, &new().text(1, "/var")));
    let spec = new()
        .message(1, &volume)
        .message(2, &container)
        .int(4, -5)
        .int(30, 0)
        // A field of a later version.
        .text(999, "?");
    let pod = new()
        .message(1, &meta)
        .message(2, &spec)
        .message(3, &new().text(1, ""));
    assert_eq!(
        decode("v1", "Pod", &pod),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"app": "x"}, "deletionTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {
                "volumes": [{"name": "v", "hostPath": {"path": "/var"}}],
                "containers": [{
                    "name": "c", "command": ["run", "fast"],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "500m"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 10},
                    "securityContext": {"privileged": true, "runAsUser": 0},
                }],
                "terminationGracePeriodSeconds": -5,
                "enableServiceLinks": false,
            },
            "status": {},
        })
    );
}

#[test]
fn bytes_micro_times_and_named_lists() {
    let secret = new()
        .bytes(2, &entry_bytes("k", &[0, 255]))
        .text(3, "Opaque");
    assert_eq!(
        decode("v1", "Secret", &secret),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"k": "AP8="}, "type": "Opaque"})
    );
    let lease = new().message(
        2,
        &new()
            .text(1, "me")
            .int(2, 15)
            .message(4, &new().int(1, 1).int(2, 1_500)),
    );
    assert_eq!(
        decode("coordination.k8s.io/v1", "Lease", &lease)["spec"],
        json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "1970-01-01T00:00:01.000001Z"})
    );
    let extra = entry_of("scopes", &new().text(1, "a").text(1, "b"));
    let review = new().message(2, &new().text(3, "alice").message(5, &extra));
    assert_eq!(
        decode("authorization.k8s.io/v1", "SubjectAccessReview", &review)["spec"],
        json!({"user": "alice", "extra": {"scopes": ["a", "b"]}})
    );
}

fn entry_bytes(key: &str, value: &[u8]) -> Vec<u8> {
    new().text(1, key).bytes(2, value).0
}

#[test]
fn schemas_and_raw_json() {
    let any = |raw: &str| new().text(1, raw);
    let items = new().message(1, &new().text(5, "string"));
    let list = new().text(5, "array").message(24, &items);
    let schema = new()
        .text(5, "object")
        .message(8, &any("{\"a\":1}"))
        .double(9, 3.0)
        .message(20, &any("\"x\""))
        .message(20, &any("null"))
        .message(29, &entry_of("list", &list))
        .message(30, &new().int(1, 0));
    let version = new()
        .text(1, "v1")
        .int(2, 1)
        .message(4, &new().message(1, &schema));
    let crd = new().message(2, &new().text(1, "g").message(7, &version));
    let decoded = decode("apiextensions.k8s.io/v1", "CustomResourceDefinition", &crd);
    assert_eq!(
        decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "type": "object", "default": {"a": 1}, "maximum": 3, "enum": ["x", null],
            "properties": {"list": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": false,
        })
    );
}

#[test]
fn a_message_in_parts_is_merged() {
    let service = new()
        .message(2, &new().text(3, "10.0.0.1"))
        .message(2, &new().text(4, "ClusterIP"));
    assert_eq!(
        decode("v1", "Service", &service)["spec"],
        json!({"clusterIP": "10.0.0.1", "type": "ClusterIP"})
    );
}

#[test]
fn a_missing_kind_is_taken_from_the_default() {
    let default = GroupVersionKind::new("", "v1", "ConfigMap");
    let raw = new().message(2, &entry_bytes_message("a", "b"));
    let unnamed = body("", "", &raw);
    let decoded = decode_protobuf(&unnamed, Some(&default)).unwrap();
    assert_eq!(
        decoded,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}})
    );
    assert_eq!(
        decode_protobuf(&unnamed, None).unwrap_err(),
        "Object 'Kind' is missing in 'runtime.TypeMeta{APIVersion:\"\", Kind:\"\"}'"
    );
}

fn entry_bytes_message(key: &str, value: &str) -> Message {
    new().text(1, key).text(2, value)
}

#[test]
fn malformed_bodies_are_errors() {
    for (bytes, expected) in [
        (&b""[..], "empty data"),
        (
            b"{}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a\x05a", "unexpected EOF"),
        (
            b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "unexpected EOF",
        ),
        (
            b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "proto: integer overflow",
        ),
        (b"k8s\0\x0f", "proto: illegal wireType 7"),
    ] {
        assert_eq!(decode_protobuf(bytes, None).unwrap_err(), expected);
    }
    assert_eq!(
        decode_protobuf(&body("v1", "Pod", &new().int(1, 1)), None).unwrap_err(),
        "proto: wrong wireType = 0 for field metadata"
    );
    assert_eq!(
        decode_protobuf(&body("example.com/v1", "Widget", &new()), None).unwrap_err(),
        "no kind \"Widget\" is registered for version \"example.com/v1\""
    );
    let mut schema = new();
    for _ in 0..1000 {
        schema = new().message(28, &schema);
    }
    let crd = new().message(
        2,
        &new().message(7, &new().message(4, &new().message(1, &schema))),
    );
    let deep = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &crd);
    assert_eq!(
        decode_protobuf(&deep, None).unwrap_err(),
        "exceeded max depth"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_protobuf(&body("v1", "Pod", &Message(bytes.clone())), None);
        let _ = decode_protobuf(&[PREFIX.as_slice(), &bytes].concat(), None);
    }

    /// Encoded messages decode to the same values.
    #[test]
    fn config_maps_survive_the_round_trip(data in prop::collection::btree_map("[a-z]{1,8}", "\\PC{0,12}", 0..6)) {
        let mut map = new().message(1, &new().text(1, "n"));
        for (key, value) in &data {
            map = map.message(2, &entry_bytes_message(key, value));
        }
        let decoded = decode("v1", "ConfigMap", &map);
        let expected = if data.is_empty() { Value::Null } else { json!(data) };
        prop_assert_eq!(decoded.get("data").cloned().unwrap_or_default(), expected);
    }
}

#[test]
fn unknown_kind_differs_from_malformed_body() {
    let wanted = GroupVersionKind::new("", "v1", "ConfigMap");
    let gadget = body("v1", "Gadget", &new());
    assert_eq!(
        unknown_protobuf_kind(&gadget, &wanted),
        Some(GroupVersionKind::new("", "v1", "Gadget"))
    );
    let known = body("v1", "ConfigMap", &new());
    assert_eq!(unknown_protobuf_kind(&known, &wanted), None);
    assert_eq!(unknown_protobuf_kind(b"{}", &wanted), None);
}
