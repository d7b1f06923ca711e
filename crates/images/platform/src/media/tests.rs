use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("application/vnd.oci.image.index.v1+json", Kind::Index)]
#[case(
    "application/vnd.docker.distribution.manifest.list.v2+json; charset=utf-8",
    Kind::Index
)]
#[case(" Application/VND.oci.image.manifest.v1+JSON ;q=1", Kind::Manifest)]
#[case("application/vnd.docker.distribution.manifest.v2+json", Kind::Manifest)]
#[case("application/vnd.oci.image.config.v1+json", Kind::Config)]
#[case("application/vnd.docker.container.image.v1+json", Kind::Config)]
#[case(
    "application/vnd.docker.distribution.manifest.v1+json",
    Kind::Unsupported
)]
#[case(
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
    Kind::Unsupported
)]
#[case("application/vnd.oci.artifact.manifest.v1+json", Kind::Unsupported)]
#[case("application/vnd.oci.empty.v1+json", Kind::Unsupported)]
#[case("application/json", Kind::Unknown)]
#[case("", Kind::Unknown)]
fn kinds(#[case] text: &str, #[case] kind: Kind) {
    assert_eq!(MediaType::read(text).kind(), kind);
}

#[test]
fn accepted_types_can_be_parsed() {
    for accepted in ACCEPT {
        assert!(matches!(
            MediaType::read(accepted).kind(),
            Kind::Index | Kind::Manifest
        ));
    }
    assert!(MediaType::default().is_empty());
}

proptest! {
    #[test]
    fn reading_settles(text in ".{0,40}|application/vnd\\.(oci|docker)\\.[a-z.]{0,30}v[12]\\+json") {
        let media = MediaType::read(&text);
        prop_assert_eq!(MediaType::read(media.as_str()), media);
    }
}
