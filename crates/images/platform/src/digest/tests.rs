use proptest::prelude::*;
use rstest::rstest;

use super::*;

const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[rstest]
#[case(
    Algorithm::Sha256,
    "abc",
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
)]
#[case(
    Algorithm::Sha512,
    "abc",
    "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
)]
#[case(Algorithm::Sha256, "", EMPTY)]
fn known_hashes(#[case] algorithm: Algorithm, #[case] content: &str, #[case] text: &str) {
    let digest = Digest::of(algorithm, content.as_bytes());
    assert_eq!(digest.to_string(), text);
    assert_eq!(text.parse(), Ok(digest.clone()));
    assert_eq!(digest.verify(content.as_bytes()), Ok(()));
}

#[rstest]
#[case("", "expected algorithm:hash")]
#[case("sha256", "expected algorithm:hash")]
#[case(":abc", "expected algorithm:hash")]
#[case("sha+:abc", "expected algorithm:hash")]
#[case("sha 256:abc", "expected algorithm:hash")]
#[case(
    "md5:d41d8cd98f00b204e9800998ecf8427e",
    "algorithm \"md5\" is not supported; sha256 and sha512 are"
)]
#[case("SHA256:00", "algorithm \"SHA256\" is not supported")]
#[case("sha256+b64:abc", "algorithm \"sha256+b64\" is not supported")]
#[case("sha256:abc", "a sha256 hash has 64 digits, not 3")]
#[case(
    "sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "a sha512 hash has 128 digits, not 64"
)]
#[case(
    "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
    "only the digits 0-9 and a-f"
)]
#[case(
    "sha256:g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "only the digits 0-9 and a-f"
)]
#[case(
    "sha256:../../../../../../../../../../../../../../../../../../../etc/pwd",
    "only the digits"
)]
fn refused(#[case] text: &str, #[case] why: &str) {
    let error = text.parse::<Digest>().unwrap_err().to_string();
    assert!(error.starts_with("reading digest \""), "{error}");
    assert!(error.contains(why), "{error}");
}

#[test]
fn content_that_differs_is_a_mismatch_that_names_both() {
    let digest: Digest = EMPTY.parse().unwrap();
    let mismatch = digest.verify(b"abc").unwrap_err();
    assert_eq!(mismatch.expected, digest);
    assert_eq!(mismatch.actual, Digest::sha256(b"abc"));
    assert_eq!(
        mismatch.to_string(),
        format!(
            "comparing digests: expected {EMPTY}, but the content is {}",
            mismatch.actual
        )
    );
}

#[test]
fn the_same_content_by_another_algorithm_is_another_digest() {
    let long = Digest::of(Algorithm::Sha512, b"abc");
    assert!(Digest::sha256(b"abc").expect(long.clone()).is_err());
    assert_eq!(long.verify(b"abc"), Ok(()));
}

#[rstest]
#[case(Algorithm::Sha256)]
#[case(Algorithm::Sha512)]
fn a_hash_goes_on_from_its_state(#[case] algorithm: Algorithm) {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(b"ab");
    let mut resumed = Hasher::resume(algorithm, &hasher.state()).unwrap();
    resumed.update(b"c");
    assert_eq!(resumed.finish(), Digest::of(algorithm, b"abc"));
    assert!(Hasher::resume(algorithm, b"short").is_none());
}

#[test]
fn names_take_the_first_digits() {
    let digest = Digest::sha256(b"");
    assert_eq!(digest.short(12), "e3b0c44298fc");
    assert_eq!(digest.short(1000), digest.hash());
    assert_eq!(
        digest.blob_path(),
        format!("blobs/sha256/{}", digest.hash())
    );
}

#[test]
fn json_has_the_text() {
    let json = format!("\"{EMPTY}\"");
    let digest: Digest = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&digest).unwrap(), json);
    assert!(serde_json::from_str::<Digest>("\"sha256:1\"").is_err());
    assert!(serde_json::from_str::<Digest>("7").is_err());
}

proptest! {
    #[test]
    fn pieces_hash_like_the_whole(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..8), long in any::<bool>()) {
        let algorithm = if long { Algorithm::Sha512 } else { Algorithm::Sha256 };
        let expected = Digest::of(algorithm, &pieces.concat());
        let mut hasher = expected.hasher();
        for piece in &pieces {
            hasher.update(piece);
        }
        prop_assert_eq!(expected.expect(hasher.finish()), Ok(()));
        prop_assert_eq!(expected.to_string().parse(), Ok(expected));
    }

    #[test]
    fn parse_and_display_round_trip(text in "(sha(256|512))?:?[0-9a-fA-F]{60,66}|.*") {
        if let Ok(digest) = text.parse::<Digest>() {
            prop_assert_eq!(digest.to_string(), text);
        }
    }
}
