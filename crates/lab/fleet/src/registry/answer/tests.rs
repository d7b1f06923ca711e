//! Responses of the distribution protocol.

use std::collections::BTreeMap;

use http_body_util::BodyExt as _;
use platform::media;
use rstest::rstest;

use super::*;
use crate::registry::holdings::Holdings;

fn library() -> Library {
    let holdings = Holdings::read(&BTreeMap::new(), None, |error| panic!("{error}"));
    Library::new(holdings, Vec::new())
}

fn ask(library: &Library, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answer(library, &request.body(()).unwrap())
}

fn body(answer: Answer) -> Bytes {
    let collected = futures::executor::block_on(answer.into_body().collect());
    collected.unwrap().to_bytes()
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let value = answer.headers().get(name);
    value.map_or("", |value| value.to_str().unwrap())
}

const LATEST: &str = "/v2/containerdisks/fedora/manifests/latest";

#[test]
fn api_version_check_succeeds() {
    for path in ["/v2/", "/v2"] {
        let answer = ask(&library(), path, &[]);
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(
            header(&answer, "docker-distribution-api-version"),
            "registry/2.0"
        );
    }
}

#[test]
fn manifest_has_type_and_digest_headers() {
    let library = library();
    let whole = ask(&library, LATEST, &[("accept", &media::ACCEPT.join(", "))]);
    assert_eq!(whole.status(), StatusCode::OK);
    assert_eq!(
        header(&whole, "content-type"),
        "application/vnd.oci.image.index.v1+json"
    );
    let digest = header(&whole, "docker-content-digest").to_owned();
    let tag = header(&whole, "etag").to_owned();
    assert_eq!(tag, format!("\"{digest}\""));
    let bytes = body(whole);
    digest.parse::<Digest>().unwrap().verify(&bytes).unwrap();
    let same = ask(&library, LATEST, &[("if-none-match", &tag)]);
    assert_eq!(same.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(header(&same, "docker-content-digest"), digest);
    assert!(body(same).is_empty());
    let other = ask(&library, LATEST, &[("if-none-match", "\"sha256:0\"")]);
    assert_eq!(other.status(), StatusCode::OK);
    let path = format!("/v2/containerdisks/fedora/manifests/{digest}");
    assert_eq!(body(ask(&library, &path, &[])), bytes);
}

#[rstest]
#[case::everything("*/*", true)]
#[case::applications("application/*", true)]
#[case::it("application/vnd.oci.image.index.v1+json", true)]
#[case::among_others("text/html, application/vnd.oci.image.index.v1+json;q=0.5", true)]
#[case::another("application/vnd.docker.distribution.manifest.list.v2+json", false)]
#[case::not_it("application/vnd.oci.image.index.v1+json;q=0", false)]
fn unaccepted_media_type_is_not_found(#[case] accept: &str, #[case] found: bool) {
    let answer = ask(&library(), LATEST, &[("accept", accept)]);
    let expected = if found { 200 } else { 404 };
    assert_eq!(answer.status(), expected);
}

#[test]
fn blobs_support_ranges() {
    let library = library();
    let name = Name::Tag("13".to_owned());
    let repository = "containerdisks/debian";
    let document = library.document(repository, &name).unwrap().unwrap();
    let manifest: Value = serde_json::from_slice(&document.bytes).unwrap();
    let layer = &manifest["layers"][0];
    let digest = layer["digest"].as_str().unwrap();
    let path = format!("/v2/{repository}/blobs/{digest}");
    let whole = ask(&library, &path, &[]);
    assert_eq!(header(&whole, "accept-ranges"), "bytes");
    let tag = header(&whole, "etag").to_owned();
    let whole = body(whole);
    assert_eq!(layer["size"], whole.len());
    digest.parse::<Digest>().unwrap().verify(&whole).unwrap();

    let end = ask(&library, &path, &[("range", "bytes=1000-")]);
    assert_eq!(end.status(), StatusCode::PARTIAL_CONTENT);
    let expected = format!("bytes 1000-{}/{}", whole.len() - 1, whole.len());
    assert_eq!(header(&end, "content-range"), expected);
    assert_eq!(body(end), whole.slice(1000..));
    let headers = [("range", "bytes=0-9"), ("if-range", tag.as_str())];
    assert_eq!(body(ask(&library, &path, &headers)), whole.slice(..10));
    let headers = [("range", "bytes=0-9"), ("if-range", "\"another\"")];
    assert_eq!(body(ask(&library, &path, &headers)), whole);
    let beyond = format!("bytes={}-", whole.len());
    let beyond = ask(&library, &path, &[("range", &beyond)]);
    assert_eq!(beyond.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(
        header(&beyond, "content-range"),
        format!("bytes */{}", whole.len())
    );
}

#[test]
fn lists_are_paginated() {
    let library = library();
    let path = "/v2/containerdisks/centos-stream/tags/list";
    let tags = |answer: Answer| {
        let list: Value = serde_json::from_slice(&body(answer)).unwrap();
        list["tags"].clone()
    };
    let all = ask(&library, path, &[]);
    assert_eq!(header(&all, "link"), "");
    assert_eq!(tags(all), json!(["10", "10-1", "9", "9-1"]));
    let first = ask(&library, &format!("{path}?n=3"), &[]);
    let next = header(&first, "link").to_owned();
    assert_eq!(next, format!("<{path}?n=3&last=9>; rel=\"next\""));
    assert_eq!(tags(first), json!(["10", "10-1", "9"]));
    let rest = ask(&library, &format!("{path}?n=3&last=9"), &[]);
    assert_eq!(header(&rest, "link"), "");
    assert_eq!(tags(rest), json!(["9-1"]));
    let repositories = body(ask(&library, "/v2/_catalog", &[]));
    let repositories: Value = serde_json::from_slice(&repositories).unwrap();
    assert_eq!(repositories["repositories"].as_array().unwrap().len(), 4);
}

#[rstest]
#[case("/", 404, "NAME_UNKNOWN")]
#[case("/v2x/", 404, "NAME_UNKNOWN")]
#[case("/v2/containerdisks/vista/tags/list", 404, "NAME_UNKNOWN")]
#[case("/v2/containerdisks/vista/manifests/latest", 404, "NAME_UNKNOWN")]
#[case("/v2/Containerdisks/x/manifests/latest", 400, "NAME_INVALID")]
#[case("/v2/../etc/manifests/latest", 400, "NAME_INVALID")]
#[case("/v2/containerdisks/fedora/manifests/nope", 404, "MANIFEST_UNKNOWN")]
#[case("/v2/containerdisks/fedora/manifests/.nope", 400, "TAG_INVALID")]
#[case("/v2/containerdisks/fedora/manifests/sha256:1", 400, "DIGEST_INVALID")]
#[case(
    "/v2/containerdisks/fedora/blobs/sha256:0000000000000000000000000000000000000000000000000000000000000000",
    404,
    "BLOB_UNKNOWN"
)]
#[case("/v2/containerdisks/fedora/blobs/latest", 400, "DIGEST_INVALID")]
#[case("/v2/containerdisks/fedora/uploads", 404, "UNSUPPORTED")]
#[case(
    "/v2/containerdisks/fedora/tags/list?n=-1",
    400,
    "PAGINATION_NUMBER_INVALID"
)]
fn errors_follow_the_distribution_protocol(
    #[case] path: &str,
    #[case] status: u16,
    #[case] code: &str,
) {
    let answer = ask(&library(), path, &[]);
    assert_eq!(answer.status(), status);
    let error_body: Value = serde_json::from_slice(&body(answer)).unwrap();
    assert_eq!(error_body["errors"][0]["code"], code);
}

#[test]
fn pushes_are_rejected() {
    let request = Request::put(LATEST).body(()).unwrap();
    let answer = answer(&library(), &request);
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(header(&answer, "allow"), "GET, HEAD");
}
